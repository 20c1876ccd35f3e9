# SPDX-License-Identifier: BSD-2-Clause
"""The plugin: its options, the fixture `verbena`, and what it keeps of a failed test."""

import os
import pathlib

import pytest

from verbena_pytest import artifacts, in_process
from verbena_pytest.device import Device
from verbena_pytest.program import Program, VerbenaError

def pytest_addoption(parser):
    group = parser.getgroup("verbena", "an emulated RDMA device for each test")
    group.addoption("--verbena", metavar="PATH", help="the command verbena, if PATH does not lead to it")
    group.addoption("--verbena-artifacts", metavar="DIR", help="where failed tests leave status, events, explanations "
                    "and packets (default: verbena-artifacts)")
    group.addoption("--verbena-in-process", action="store_true", default=None,
                    help="start pytest anew so that the tests' own process sees the device (pyverbs)")
    parser.addini("verbena_program", "the command verbena, if PATH does not lead to it")
    parser.addini("verbena_artifacts", "where failed tests leave what is known of them", default="verbena-artifacts")
    parser.addini("verbena_in_process", "as --verbena-in-process", type="bool", default=False)
    parser.addini("verbena_capture", "capture the packets of each test, to keep them if it fails", type="bool", default=True)


def setting(config, name, ini=None):
    # Before pytest has read its settings, it knows only these options.
    chosen = getattr(config.known_args_namespace, name, None)
    return config.getini(ini or name) if chosen is None else chosen


def program_of(config):
    return Program(setting(config, "verbena", "verbena_program") or "verbena")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    if setting(early_config, "verbena_in_process") and not in_process.sees_devices():
        try:
            program = program_of(early_config)
        except VerbenaError as error:
            raise pytest.UsageError(f"verbena: {error}") from None
        reason = in_process.start_anew(early_config, program)
        raise pytest.UsageError(f"verbena: {reason}")


def pytest_configure(config):
    config.addinivalue_line("markers", "verbena(*options): options of `verbena up` for the device of the test, "
                            'as @pytest.mark.verbena("--device", "mlx5_0")')


@pytest.fixture(scope="session")
def verbena_program(pytestconfig):
    """The command `verbena`."""
    try:
        return program_of(pytestconfig)
    except VerbenaError as error:
        raise pytest.fail.Exception(f"verbena: {error}", pytrace=False) from None


@pytest.fixture
def verbena(request, verbena_program, monkeypatch):
    """An RDMA device that only this test has."""
    options = [word for marker in request.node.iter_markers("verbena") for word in marker.args]
    try:
        device = Device(verbena_program, options, captures=request.config.getini("verbena_capture"))
    except VerbenaError as error:
        raise pytest.fail.Exception(f"verbena: {error}", pytrace=False) from None
    if in_process.sees_devices():
        # The libraries read these variables each time they look for devices, so each test sees its own device.
        for name in ("VERBENA_RUNTIME_DIR", "VERBENA_LOG"):
            monkeypatch.setenv(name, device.environment[name])
    request.node.verbena_device = device
    yield device
    device.stop()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    device = getattr(item, "verbena_device", None)
    if device is None:
        return
    if report.failed:
        report.sections.append(("verbena", what_is_kept(device, item, report)))
    if report.when == "teardown":
        # Not earlier: the end of another fixture may have failed, before ours or after it.
        del item.verbena_device
        device.close()


def what_is_kept(device, item, report):
    """Of a test that has failed already, what was kept then stays."""
    if device.kept_in is None:
        top = pathlib.Path(setting(item.config, "verbena_artifacts"))
        device.kept_in = pathlib.Path(os.fspath(item.config.invocation_params.dir), top, artifacts.name_of(item.nodeid))
        return artifacts.save(device, device.kept_in, item, report)
    return f"artifacts: {device.kept_in}, of the failure before"
