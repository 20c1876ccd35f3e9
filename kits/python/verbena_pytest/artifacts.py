# SPDX-License-Identifier: BSD-2-Clause
"""Keeps what a failed test leaves, in a folder that is small enough to be uploaded."""

import contextlib
import json
import os
import re
import shlex
import shutil
import zlib

from verbena_pytest import in_process
from verbena_pytest.program import VerbenaError
from verbena_pytest.programs import explanations_in

LONGEST = 150  # characters of a folder's name
SHOWN = 20  # explanations in pytest's report; the file has all


def name_of(nodeid):
    """Returns a folder's name for a test: test_a.py-test_b for "test_a.py::test_b". If the name says less than the
    test's ID, it ends with a checksum of the ID, so that no two tests share a folder:
    tests-test_a.py-test_b-1-x-a2695375 for "tests/test_a.py::test_b[1-x]"."""
    name = re.sub(r"[^\w.-]+", "-", nodeid, flags=re.ASCII).strip("-")
    if name == nodeid.replace("::", "-") and len(name) <= LONGEST:
        return name
    return f"{name[:LONGEST]}-{zlib.crc32(nodeid.encode(errors='replace')):08x}"


def again(item):
    """Returns the command that runs the test again, in the folder where pytest was started."""
    config = item.config
    words = ["pytest"]
    if in_process.sees_devices():
        words.append("--verbena-in-process")
    for option, value in (("--verbena", config.option.verbena), ("-c", config.option.inifilename),
                          ("--rootdir", config.option.rootdir)):
        if value:
            words += [option, os.fspath(value)]
    # The ID names the file below the root only if it is there: an option's value may have moved the root elsewhere.
    file = getattr(item, "path", None) or item.fspath  # pytest before 7 has no path
    _, *names = item.nodeid.split("::", 1)
    return shlex.join([*words, "::".join([os.path.relpath(file, config.invocation_params.dir), *names])])


def save(device, folder, item, report):
    """Saves the artifacts and returns the text for pytest's report. An unwritable folder does not stop the other tests."""
    try:
        return _saved(device, folder, item, report)
    except (OSError, ValueError) as error:
        return f"artifacts cannot be kept in {folder}: {getattr(error, 'strerror', None) or error}"


def write(file, text):
    """Writes a file, also if the text has what UTF-8 cannot encode: a byte of a command or of what a program printed."""
    file.write_text(text, encoding="utf-8", errors="backslashreplace")


def _saved(device, folder, item, report):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines = [f"artifacts: {folder}"]
    try:
        status = device.status
        write(folder / "status.json", json.dumps(status, indent=1) + "\n")
        write(folder / "events.jsonl", device.ask("events", "--json"))
    except VerbenaError as error:
        lines.append(str(error))
        status = {}
    finished = [program.finished() for program in device.programs]
    explanations = [line for one in finished for line in one.explanations]
    explanations += explanations_in(report.capstderr)
    explanations += [f"verbena: {wait}" for one in finished for wait in one.waits]
    write(folder / "explain.log", "".join(line + "\n" for line in explanations))
    write(folder / "programs.log", "".join(one.report() + "\n" for one in finished))
    path, line, _ = item.location
    write(folder / "test.json", json.dumps({
        "test": item.nodeid, "file": path, "line": (line or 0) + 1, "faults": device.faults,
        "programs": [{"command": one.command, "returncode": one.returncode} for one in finished],
        "never_fired": [rule["rule"] for rule in status.get("rules", []) if rule["fired"] == 0],
        "version": device.program.version, "again": again(item),
    }, indent=1) + "\n")
    device.end_capture()
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(device.folder / "capture.pcapng", folder / "capture.pcapng")
    lines += [f"files: {', '.join(sorted(file.name for file in folder.iterdir()))}"]
    lines += [f"fault: {fault}" for fault in device.faults]
    lines += [f"rule: {rule['rule']}: matched {rule['matched']}, fired {rule['fired']}" for rule in status.get("rules", [])]
    if len(explanations) > SHOWN:
        lines.append(f"the last {SHOWN} of {len(explanations)} explanations:")
    return "\n".join(lines + explanations[-SHOWN:])
