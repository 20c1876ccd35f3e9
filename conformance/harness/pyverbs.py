# SPDX-License-Identifier: BSD-2-Clause
"""Runs the tests of a python suite in child processes, one module after the other, with a watchdog.

Owner: conformance/pyverbs/run. Promise: a test that hangs or kills its process costs only itself; the rest of its module goes on
in a new process.
"""

import json
import pathlib
import time

from . import processes
from .suite import Outcome

_CHILD = pathlib.Path(__file__).resolve().parent.parent / "pyverbs" / "child.py"
_PYTHON = "/usr/bin/python3"  # the interpreter that the distribution's pyverbs is built for
_LISTING_SECONDS = 60.0


class SuiteRunner:
    """Runs one suite on one device."""

    def __init__(self, parent, device, folder, limit):
        self._parent = pathlib.Path(parent)
        self._device = device
        self._folder = pathlib.Path(folder)
        self._limit = limit  # seconds for one test
        self._arguments = ["--dev", device.name, "--port", "1", "--gid", device.gid]
        self._number = 0

    def list(self):
        """Returns the names of all tests."""
        program, report = self._start([])
        with program:
            code = program.wait(time.monotonic() + _LISTING_SECONDS)
            if code != 0:
                raise RuntimeError(f"listing the suite ended with {code}:\n{program.output()}")
        return [record["test"] for record in _records(report)]

    def run(self, names):
        """Yields (test, Outcome, seconds) for each name."""
        left = list(names)
        while left:
            done = 0
            for test, outcome, seconds in self._once(left):
                left.remove(test)
                done += 1
                yield test, outcome, seconds
            if not done:
                yield left.pop(0), Outcome("crash", f"the process ended before it started, see {self._folder}"), 0.0

    def _start(self, names):
        self._number += 1
        report, wanted = self._folder / f"report{self._number}", self._folder / f"wanted{self._number}"
        wanted.write_text("\n".join(names))
        report.touch()
        report.chmod(0o666)
        words = [_PYTHON, str(_stage_child(self._folder)), str(self._parent), str(report), str(wanted), "--",
                 *self._arguments]
        return processes.Program(self._device.wrap(words), self._folder / f"child{self._number}.log",
                                 self._device.environment, self._folder), report

    def _once(self, names):
        """Runs one process. Yields the tests that it finished, and the test that killed it or hung."""
        program, report = self._start(names)
        seen, running, since = 0, None, time.monotonic()
        with program:
            while True:
                grown = program.wait_for(lambda: len(_records(report)) > seen, time.monotonic() + self._limit)
                for record in _records(report)[seen:]:
                    seen += 1
                    if record["event"] == "start":
                        running, since = record["test"], time.monotonic()
                    else:
                        running = None
                        yield record["test"], Outcome(record["word"], record["reason"]), time.monotonic() - since
                if not grown:
                    break
            code = program.wait(time.monotonic())
        if running is not None:
            outcome = (Outcome("hang", f"no end after {self._limit:g} s") if code is None else
                       Outcome("crash", f"the process ended with {code}, see {program.log}"))
            yield running, outcome, time.monotonic() - since


def _stage_child(folder):
    """Returns a copy of child.py that every user can read."""
    copy = pathlib.Path(folder, "child.py")
    if not copy.exists():
        copy.write_text(_CHILD.read_text())
        copy.chmod(0o644)
    return copy


def _records(report):
    """Returns the complete lines of a report."""
    text = report.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]
