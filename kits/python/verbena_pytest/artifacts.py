# SPDX-License-Identifier: BSD-2-Clause
"""What is kept of a test that failed: a folder that is small enough to be uploaded."""

import contextlib
import json
import re
import shutil

from verbena_pytest.program import VerbenaError

SHOWN = 20  # explanations in pytest's report; all are in the file


def name_of(nodeid):
    """A folder's name: of "tests/test_a.py::test_b[1-x]", test_a.py-test_b-1-x."""
    return re.sub(r"[^\w.-]+", "-", nodeid.rsplit("/", 1)[-1]).strip("-")[:150]


def save(device, folder, item, report):
    """Returns what pytest is to show."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines = [f"artifacts: {folder}"]
    try:
        status = device.status
        (folder / "status.json").write_text(json.dumps(status, indent=1) + "\n")
        (folder / "events.jsonl").write_text(device.ask("events", "--json"))
    except VerbenaError as error:
        lines.append(str(error))
        status = {}
    finished = [program.finished() for program in device.programs]
    explanations = [line for one in finished for line in one.explanations]
    explanations += [line for line in report.capstderr.splitlines() if line.startswith("verbena: ")]
    (folder / "explain.log").write_text("".join(line + "\n" for line in explanations))
    (folder / "programs.log").write_text("".join(one.report() + "\n" for one in finished))
    path, line, _ = item.location
    (folder / "run.json").write_text(json.dumps({
        "test": item.nodeid, "file": path, "line": (line or 0) + 1, "faults": device.faults,
        "programs": [{"command": one.command, "returncode": one.returncode} for one in finished],
        "version": device.program.version, "again": f"pytest '{item.nodeid}'",
    }, indent=1) + "\n")
    device.end_capture()
    with contextlib.suppress(FileNotFoundError):
        shutil.copy(device.folder / "capture.pcapng", folder)
    lines += [f"files: {', '.join(sorted(file.name for file in folder.iterdir()))}"]
    lines += [f"fault: {fault}" for fault in device.faults]
    lines += [f"rule: {rule['rule']}: matched {rule['matched']}, fired {rule['fired']}" for rule in status.get("rules", [])]
    if len(explanations) > SHOWN:
        lines.append(f"the last {SHOWN} of {len(explanations)} explanations:")
    return "\n".join(lines + explanations[-SHOWN:])
