# SPDX-License-Identifier: BSD-2-Clause
"""The device of one test: an emulator that nobody else uses."""

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile

from verbena_pytest.counters import Counters, Rule, sum_of
from verbena_pytest.program import VerbenaError
from verbena_pytest.programs import ProgramFailed, Running, text_of, words_of

TRIES = 20  # of fabrics that another emulator of this host may have


class Device:
    """`options` are those of `verbena up`. The emulator lives until close(), or until this process ends, however it ends."""

    def __init__(self, program, options=(), captures=True):
        self.program = program
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="verbena-pytest-"))
        self.faults = []  # what was set, as one would type it
        self._numbers = iter(range(1, 1 << 30))
        self._programs = []
        self._captures = contextlib.ExitStack()
        self._keeper = None
        self.environment = program.environment(self.folder / "run")
        try:
            self._keeper = self._started(list(map(os.fspath, options)))
            if captures:
                self._captures.enter_context(self.capture(self.folder / "capture.pcapng"))
        except BaseException:
            self.close()
            raise

    # Life.

    def _started(self, options):
        """The shell that starts the emulator ends it, too, when its input is closed: by us, or by our end."""
        fixed = any(option.startswith("--fabric") for option in options)
        for left in reversed(range(1 if fixed else TRIES)):
            fabric = [] if fixed else ["--fabric", f"127.{random.randrange(64, 250)}.{random.randrange(1, 250)}.0/24"]
            words = [self.program.path, "run", "--quiet", *fabric, *options, "--", "sh", "-c", 'echo up; cat; "$0" down',
                     self.program.path]
            keeper = subprocess.Popen(words, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, start_new_session=True)
            if keeper.stdout.readline() == "up\n":
                return keeper
            _, said = keeper.communicate()
            if left == 0 or "address" not in said.lower():
                raise VerbenaError(f"the device could not be had: {said.strip()}")
        return None

    def close(self):
        for program in self._programs:
            program.stop()
        self.end_capture()
        if self._keeper is not None:
            self._keeper.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)

    def end_capture(self):
        """Of what is captured from the start on: the file is complete afterwards."""
        self._captures.close()

    # Programs.

    def start(self, command, *, fail=(), env=None, cwd=None, stdin=None):
        """Starts a program that sees the device. It is stopped at the end of the test, if it has not ended by then."""
        words = [self.program.path, "run", *(f"--fail={failure}" for failure in fail), "--", *words_of(command)]
        running = Running(words, text_of(command), self.folder, next(self._numbers), stdin=stdin, cwd=cwd,
                          env={**self.environment, **(env or {})})
        self._programs.append(running)
        return running

    def run(self, command, *, check=True, timeout=60, **options):
        """Runs a program to its end. With `check`, an exit code other than 0 is raised as ProgramFailed."""
        running = self.start(command, **options)
        finished = running.wait(timeout)
        running.stop()
        if check and not finished.ok:
            raise ProgramFailed(finished)
        return finished

    @property
    def programs(self):
        """All that were started, in this order."""
        return tuple(self._programs)

    # Faults and events.

    def ask(self, *words):
        """`verbena WORDS` about this device; what it complains of is raised as VerbenaError."""
        return self.program.ask(*words, environment=self.environment)

    def fault(self, **values):
        """`verbena fault` in keywords: loss="1%", seed=7, qp="0x000123", cm=True. As a context manager it is taken away
        again, with all others, at the end."""
        words = [word for name, value in values.items() for word in option_words(name, value)]
        said = self.ask("fault", *words)
        if said.startswith("seed "):
            words += ["--seed", said.split()[1].rstrip(";")]
        self.faults.append(" ".join(words))
        return self._cleared_at_the_end()

    def _cleared_at_the_end(self):
        stack = contextlib.ExitStack()
        stack.callback(self.clear_faults)
        return stack

    def clear_faults(self):
        self.ask("fault", "--clear")
        self.faults.append("--clear")

    # What is seen.

    @property
    def status(self):
        """What `verbena status --json` says."""
        return json.loads(self.ask("status", "--json"))

    @property
    def counters(self):
        """The counters of all ports together, from the start of the device or the last reset_counters()."""
        return Counters(sum_of(port["counters"] for port in self._ports()))

    @property
    def drops(self):
        """{reason: packets}; reasons that dropped nothing are not in it."""
        return sum_of(port["drops"] for port in self._ports())

    @property
    def rules(self):
        return [Rule(**{name: rule[name] for name in ("rule", "matched", "fired")}) for rule in self.status["rules"]]

    def reset_counters(self):
        self.ask("status", "--reset")

    def _ports(self):
        return [port for device in self.status["devices"] for port in device["ports"]]

    @contextlib.contextmanager
    def capture(self, path, *options):
        """Packets into a pcapng file, within the block. There is one capture at a time: that for a failure ends here."""
        self.end_capture()
        words = [self.program.path, "capture", *options, str(path)]
        with Running(words, text_of(words), self.folder, f"capture-{next(self._numbers)}", env=self.environment) as running:
            running.wait_for_output("capturing to ")
            try:
                yield pathlib.Path(path)
            finally:
                os.kill(running.pid, signal.SIGINT)
                running.wait()


def option_words(name, value):
    """loss="1%" is --loss 1%; cm=True is --cm; both_ends=True is --both-ends; a sequence repeats the option."""
    option = "--" + name.replace("_", "-")
    if value is True:
        return [option]
    if value is False or value is None:
        return []
    values = value if isinstance(value, (list, tuple)) else [value]
    return [word for one in values for word in (option, hex(one) if name == "qp" and isinstance(one, int) else str(one))]
