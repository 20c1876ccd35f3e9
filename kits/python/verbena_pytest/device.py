# SPDX-License-Identifier: BSD-2-Clause
"""The device of one test: an emulator that no other test uses."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from verbena_pytest.counters import Counters, Rule, sum_of
from verbena_pytest.faults import OF_RUN, Fault
from verbena_pytest.options import is_given, options_words
from verbena_pytest.program import VerbenaError
from verbena_pytest.programs import ProgramFailed, Running, text_of, words_of


MARK = "VERBENA_PYTEST"  # a variable in the environment of the programs that a test starts

# Prints the emulator's directory, and reads until its input is closed, by the test or because pytest has ended. Then it
# ends all processes that have the test's mark in their environment, in whatever session, and removes the test's files.
KEEPER = """
echo "$VERBENA_RUNTIME_DIR"
cat
end_marked() {
  for signal in TERM KILL; do
    for look in $(seq 50); do
      left=$(grep -ls "$1" /proc/[0-9]*/environ | tr -cd '0-9\\n')
      [ -n "$left" ] || return
      [ "$signal" = TERM ] && [ "$look" != 1 ] || kill -s "$signal" $left
      sleep 0.1
    done
  done
}
end_marked "$1" 2>/dev/null
rm -rf "$2"
"""


class Device:
    """An emulator of a test. `options` are options of `verbena up`. The emulator lives until close(), or until this
    process ends for any reason. The programs that run(), start() and pair() have started end with it."""

    def __init__(self, program, options=(), captures=True):
        self.program = program
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="verbena-pytest-"))
        self.faults = []  # the options of the faults that were set, as one would type them
        self.kills_emulator = False  # a rule was set that kills it
        self.kept_in = None  # the folder with what is known of a failure
        self._numbers = iter(range(1, 1 << 30))
        self._programs = []
        self._captures = contextlib.ExitStack()
        self._keeper = None
        try:
            self._keeper, directory = self._started(list(map(os.fspath, options)))
            self.environment = program.environment(directory)
            if captures:
                self._captures.enter_context(self.capture(self.folder / "capture.pcapng"))
        except BaseException:
            self.close()
            raise

    # Beginning and end.

    def _started(self, options):
        """Starts a keeper under `verbena run --private`, whose emulator lives as long as its program."""
        words = [self.program.path, "run", "--private", "--quiet", *options, "--", "sh", "-c", KEEPER, "sh",
                 f"{MARK}={self.folder.name}", str(self.folder)]
        keeper = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  start_new_session=True)
        directory = keeper.stdout.readline().rstrip("\n")
        if not directory:
            raise VerbenaError(f"the device could not be had: {keeper.communicate()[1].strip()}")
        return keeper, directory

    def stop(self):
        """Ends programs and captures; what has become of them can still be asked."""
        for program in self._programs:
            program.stop()
        self.end_capture()

    def close(self):
        self.stop()
        if self._keeper is not None:
            self._keeper.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)

    def end_capture(self):
        """Ends the capture that began with the device, so that its file is complete."""
        self._captures.close()

    # Programs.

    def start(self, command, *, env=None, cwd=None, stdin=None, **options):
        """Starts a program that sees the device. The end of the test stops it if it still runs. `stdin` is a file, or
        what the program reads, as str or bytes. `options` are options of `verbena run`, such as
        fail="ibv_reg_mr=ENOMEM"; fault() sets the other faults."""
        return self._start(options, ["--", *words_of(command)], text_of(command), env, cwd, stdin)

    def _start(self, options, words, text, env, cwd, stdin=None):
        for name in OF_RUN:
            if is_given(options.get(name)):
                raise VerbenaError(f"{name} is not for a program but for the whole device: set faults with "
                                   f"verbena.fault(), as `with verbena.fault(loss=\"1%\"):` around what runs")
        if "capture" in options:
            self.end_capture()
        words = [*options_words(options), *words]
        running = Running([self.program.path, "run", *words], text, self.folder, next(self._numbers), stdin=stdin, cwd=cwd,
                          waits=self._waits, env={**self.environment, **(env or {}), MARK: self.folder.name})
        self._programs.append(running)
        return running

    def run(self, command, *, check=True, timeout=60, **options):
        """Runs a program to its end. With `check`, an exit code other than 0 raises ProgramFailed."""
        return self._ended(self.start(command, **options), check, timeout)

    def pair(self, server, client, *, check=True, timeout=60, env=None, cwd=None, **options):
        """Runs two commands of the shell, and starts the client when the server can be reached. A server that does not
        end by itself is ended after the client. The result has what each has printed: `server` and `client`."""
        running = self._start(options, ["--pair", server, client], f"{server} | {client}", env, cwd)
        return self._ended(running, check, timeout)

    def _ended(self, running, check, timeout):
        finished = running.wait(timeout)
        running.stop()
        if check and not finished.ok:
            raise ProgramFailed(finished)
        return finished

    @property
    def programs(self):
        """All programs that were started, in this order."""
        return tuple(self._programs)

    # Faults and events.

    def ask(self, *words):
        """Runs `verbena WORDS` for this device. If it fails, VerbenaError has what it printed."""
        return self.program.ask(*words, environment=self.environment)

    def lives(self):
        """Returns whether the emulator answers."""
        try:
            self.ask("status")
        except VerbenaError:
            return False
        return True

    def fault(self, **values):
        """Sets faults as `verbena fault` does: loss="1%", seed=7, qp="0x000123", cm=True. Used as a context manager, it
        ends with the block: what it has changed is as it was before, and other faults and rules stay."""
        return Fault(self, values)

    def clear_faults(self):
        """Removes all faults and rules."""
        self.ask("fault", "--clear")
        self.faults.append("--clear")

    # What the device shows.

    @property
    def status(self):
        """Returns what `verbena status --json` says."""
        return json.loads(self.ask("status", "--json"))

    @property
    def waits(self):
        """The lines of `verbena waits`: what the programs wait for."""
        return self.ask("waits").splitlines()

    def _waits(self):
        """Returns the lines of `verbena waits` for a report, or the error if the emulator is gone."""
        try:
            return self.waits
        except VerbenaError as error:
            return [str(error)]

    @property
    def counters(self):
        """The counters of all ports together, since the start of the device or the last reset_counters()."""
        return Counters(sum_of(port["counters"] for port in self._ports()))

    @property
    def drops(self):
        """{reason: packets}, without the reasons for which nothing was dropped."""
        return sum_of(port["drops"] for port in self._ports())

    @property
    def rules(self):
        return [Rule(**{name: rule[name] for name in ("rule", "matched", "fired")}) for rule in self.status["rules"]]

    def events(self, kind=None, after=0):
        """Returns what has happened, as `verbena events --json` says it: events of this kind whose number ("seq") is
        greater than `after`."""
        lines = self.ask("events", "--json", "--after", str(after)).splitlines()
        return [event for event in map(json.loads, lines) if kind in (None, event["kind"])]

    def reset_counters(self):
        self.ask("status", "--reset")

    def _ports(self):
        return [port for device in self.status["devices"] for port in device["ports"]]

    @contextlib.contextmanager
    def capture(self, path, *options):
        """Captures packets into a pcapng file while the block runs. An emulator makes one capture at a time, so this
        ends the one that is kept for a failure."""
        self.end_capture()
        words = [self.program.path, "capture", *options, str(path)]
        with Running(words, text_of(words), self.folder, f"capture-{next(self._numbers)}", env=self.environment) as running:
            running.wait_for_output("capturing to ")
            try:
                yield pathlib.Path(path)
            finally:
                os.kill(running.pid, signal.SIGINT)
                running.wait()
