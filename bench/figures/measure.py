# SPDX-License-Identifier: BSD-2-Clause
"""Runs every row once in each round, and each limit just before the first row that needs it.

bench/run owns it. It leaves no process behind.
"""

import functools
import os
import pathlib
import shlex
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "conformance"))
from harness import device as devices  # noqa: E402
from harness import processes  # noqa: E402

from . import parse, rows  # noqa: E402

LIMIT = 60.0


class Failed(Exception):
    """Raised when a program does not end well. Says which program and how."""


class Bench:
    """A device of its own, and the programs on it. `niceness` and `pinned` apply to everything that is measured, limits included."""

    def __init__(self, prefix, folder, raw_seconds, niceness=0, pinned=False):
        self._bin = pathlib.Path(prefix).resolve() / "bin"
        self._folder = pathlib.Path(folder)
        self._raw_seconds = raw_seconds
        self._nice = ["nice", "-n", str(niceness)] if niceness else []
        self._pinned = pinned
        places = sorted(os.sched_getaffinity(0))
        self._places = {1: (places[0], places[0]), 2: (places[0], places[-1])}
        (self._folder / "device").mkdir()
        # The user `nobody` would need a copy of the product. The caller can read it in place.
        self._device = devices.Emulator(self._bin.parent, "ib", "root", self._folder / "device")
        self._number = 0

    def __enter__(self):
        self._device.__enter__()
        return self

    def __exit__(self, *_):
        self._device.__exit__()

    def raw(self, name, size, processors=0):
        words = [*self._nice, self._bin / "verbena-raw", "--seconds", str(self._raw_seconds), "--only", f"{name}:{size}"]
        bound = self._bound(processors)
        if bound == 1:
            words = self._on(1, 0) + words
        words += ["--pin"] if bound == 2 else []
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, check=False)
        if done.returncode != 0:
            raise Failed(f"verbena-raw {name}:{size}: {done.stderr.strip()}")
        return parse.raw_figure(done.stdout, name, size)

    def value(self, row):
        """Measures a row, and returns one figure of Verbena."""
        words = shlex.split(row.command)
        if (self._bin / words[0]).exists():
            words[0] = str(self._bin / words[0])
        if row.alone:
            with self._start(words, row) as program:
                return row.figure(self._ended(program))
        port = processes.fresh_port()
        words += ["-p", str(port)]
        with self._start(words, row, 1) as server:
            deadline = time.monotonic() + LIMIT
            if not server.wait_for(lambda: processes.is_listening(port), deadline):
                raise Failed(f"{row.command}: the server does not listen: {server.output()[-300:]}")
            with self._start([*words, "127.0.0.1"], row, 0) as client:
                output = self._ended(client)
            self._ended(server)
        return row.figure(output)

    def _start(self, words, row, place=None):
        self._number += 1
        bound = self._bound(row.processors)
        pin = self._on(bound, place) if bound and place is not None else []
        environment = {**self._device.environment, "VERBENA_LINK": row.link}
        return processes.Program([*pin, *self._nice, *self._device.wrap(words)], self._folder / f"{self._number}.log", environment,
                                 self._folder)

    def _bound(self, processors):
        return processors or (2 if self._pinned else 0)

    def _on(self, processors, place):
        return ["taskset", "-c", str(self._places[processors][place])]

    def _ended(self, program):
        code = program.wait(time.monotonic() + LIMIT)
        if code != 0:
            word = "does not end" if code is None else f"ended with {code}"
            raise Failed(f"{' '.join(map(str, program.command[-8:]))} {word}: {program.output()[-300:]}")
        return program.output()


def run_round(bench, wanted, first, note):
    """Returns for each row, by its name, one (value, limit) or the reason of its failure. Calls `note(row)` before each row."""
    limits, results = {}, {}

    def raw(name, size, processors):
        which = (name, size, processors)
        if which not in limits:
            limits[which] = bench.raw(*which)
        return limits[which]

    for row in wanted:
        if row.once and not first:
            continue
        note(row)
        try:
            measured = functools.partial(raw, processors=row.processors)
            limit = max(rows.limit_of(text, measured) for text in row.limits) if row.limits else None
            if row.against:
                base = results[row.against]
                if isinstance(base, str):
                    raise Failed(base)
                limit = base[0]
            results[row.name] = (bench.value(row), limit)
        except (Failed, parse.Unreadable, devices.DeviceError, subprocess.TimeoutExpired) as error:
            results[row.name] = str(error)
    return results
