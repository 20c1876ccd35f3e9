# SPDX-License-Identifier: BSD-2-Clause
"""Programs that a test starts. Each has a session of its own, writes to files, and is ended with its process group."""

import contextlib
import dataclasses
import math
import os
import pathlib
import re
import shlex
import signal
import subprocess
import tempfile
import time

LOOK_EVERY = 0.01  # seconds
# `verbena run --pair` begins each line of a side with this.
SIDE = re.compile(r"^(server|client)\| ")
EXPLANATION = re.compile(r"verbena: (.*\[\d+\]: |cannot run )")
PATIENCE = 5  # seconds that a program has to end after SIGTERM


@dataclasses.dataclass
class Finished:
    """The result of a program that has ended."""

    command: str
    returncode: int
    stdout: str
    stderr: str
    waits: tuple = ()  # lines of `verbena waits` when the program had taken too long

    @property
    def ok(self):
        return self.returncode == 0

    @property
    def explanations(self):
        """The lines in which Verbena explains refused calls and failed completions."""
        return explanations_in("\n".join(SIDE.sub("", line) for line in self.stderr.split("\n")))

    @property
    def server(self):
        """What the server of a pair has printed."""
        return self._side("server")

    @property
    def client(self):
        return self._side("client")

    def _side(self, name):
        # `verbena run` begins what stands behind \n with the name, and nothing else that may separate lines.
        lines = re.findall(r"[^\n]*\n|[^\n]+$", self.stdout + self.stderr)
        return "".join(SIDE.sub("", line) for line in lines if line.startswith(name + "| "))

    def report(self):
        parts = [f"{self.command}: exit code {self.returncode}"]
        for name, text in (("stdout", self.stdout), ("stderr", self.stderr)):
            if text:
                parts.append(f"{name}:\n{text.rstrip()}")
        return "\n".join(parts)


class ProgramFailed(AssertionError):
    """Raised when a program that was to succeed did not; `finished` has its result."""

    def __init__(self, finished, why=""):
        self.finished = finished
        waits = finished.waits
        super().__init__("\n".join([why + finished.report(), *["what the programs waited for:"] * bool(waits), *waits]))


def explanations_in(text):
    """Returns the explanations of a program, "verbena: NAME[PID]: ...", and why one cannot be run. What `verbena run`
    says besides, such as that a server ended with the signal that we have sent, explains nothing."""
    return [line for line in text.split("\n") if EXPLANATION.match(line)]


def words_of(command):
    """Returns a command's words: a string is a command of the shell, a sequence a program and its arguments."""
    if isinstance(command, str):
        return ["sh", "-c", command]
    return [os.fspath(word) for word in command]


def text_of(command):
    return command if isinstance(command, str) else shlex.join(words_of(command))


def printed_in(file):
    """Returns what a program has printed, with its own ends of lines."""
    with file.open(errors="replace", newline="") as text:
        return text.read()


def _input(stdin, folder):
    """Returns a context manager with what the program reads: a file as it is, or a file with this text or these bytes."""
    if not isinstance(stdin, (str, bytes)):
        return contextlib.nullcontext(subprocess.DEVNULL if stdin is None else stdin)
    file = tempfile.TemporaryFile(dir=folder)
    file.write(stdin.encode() if isinstance(stdin, str) else stdin)
    file.seek(0)
    return file


class Running:
    """A program that has been started. As a context manager it is stopped at the end. `waits` returns what programs
    wait for."""

    def __init__(self, words, command, folder, number, *, stdin=None, waits=tuple, **options):
        self.command = command
        self._waits = waits
        self._waited = ()
        self.out, self.err = (pathlib.Path(folder, f"{number}.{name}") for name in ("stdout", "stderr"))
        with self.out.open("wb") as out, self.err.open("wb") as err, _input(stdin, folder) as read:
            self._process = subprocess.Popen(words, stdin=read, stdout=out, stderr=err, start_new_session=True, **options)
        self.pid = self._process.pid
        self._returncode = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def stdout(self):
        return printed_in(self.out)

    @property
    def stderr(self):
        return printed_in(self.err)

    @property
    def returncode(self):
        """The exit code, None while the program runs, or the negative number of the signal that ended it."""
        if self._returncode is None:
            # The process is reaped only in stop(): until then no other process can get its number, which is that of the
            # group.
            ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                self._returncode = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        return self._returncode

    @property
    def is_running(self):
        return self.returncode is None

    def _ends_within(self, seconds):
        end = time.monotonic() + (math.inf if seconds is None else seconds)
        while self.is_running and time.monotonic() < end:
            time.sleep(LOOK_EVERY)
        return not self.is_running

    def wait(self, timeout=60):
        """Waits until the program ends, and returns its result. After `timeout` seconds (None: never) ends it and raises
        ProgramFailed."""
        if not self._ends_within(timeout):
            raise self._failed(f"has not ended within {timeout} s: ")
        return self.finished()

    def wait_for_output(self, text, timeout=60):
        """Waits until the program has printed `text`. Raises ProgramFailed if it ends first, or after `timeout` seconds
        (None: never)."""
        end = time.monotonic() + (math.inf if timeout is None else timeout)
        while True:
            ended = not self.is_running
            if text in self.stdout or text in self.stderr:
                return self
            if ended or time.monotonic() > end:
                raise self._failed(f"did not print {text!r}: ")
            time.sleep(LOOK_EVERY)

    def _failed(self, why):
        """Stops the program and returns the exception, which says what the program waits for if it hangs."""
        if self.is_running:
            self._waited = tuple(self._waits())
        self.stop()
        return ProgramFailed(self.finished(), why)

    def stop(self):
        """Ends the program and all that it started in its process group."""
        if self._process is None:
            return
        if self.is_running:
            os.killpg(self.pid, signal.SIGTERM)
            self._ends_within(PATIENCE)
        os.killpg(self.pid, signal.SIGKILL)
        self._ends_within(PATIENCE)
        self._process.wait()
        self._process = None

    def finished(self):
        return Finished(self.command, self.returncode, self.stdout, self.stderr, self._waited)
