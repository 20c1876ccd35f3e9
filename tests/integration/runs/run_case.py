# SPDX-License-Identifier: BSD-2-Clause
"""The base of all tests of `verbena run`."""

import os
import pathlib
import pty
import subprocess

from emulator_case import EmulatorCase

BUILD = None  # set by runs_test.py
LIMIT = 60


class RunCase(EmulatorCase):
    """`self.dir` is the runtime directory of the ordinary emulator. Private emulators have theirs in it."""

    def setUp(self):
        super().setUp()
        self.exe = self.home + "/bin/verbena"
        self.env["VERBENA"] = self.exe

    def tearDown(self):
        for path in self.private_dirs():
            self.verbena("down", "--private", os.path.basename(path).removeprefix("private-"))
        super().tearDown()

    def private(self, *words, **more):
        return self.verbena("run", "--private", *words, **more)

    def start(self, *words, **more):
        """Starts `verbena run` in the background, until the end of the test."""
        process = subprocess.Popen([self.exe, "run", *words], env=self.env, text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream and not stream.closed:
                stream.close()
        process.wait(LIMIT)

    def finish(self, process, said=None):
        out, err = process.communicate(said, timeout=LIMIT)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def in_a_terminal_of_its_own(self, *words):
        """Starts the run as the leader of a terminal's session. Returns its number, the terminal and its lines."""
        run, terminal = pty.fork()
        if run == 0:
            os.execvpe(self.exe, [self.exe, "run", *words], self.env)
        screen = os.fdopen(os.dup(terminal), errors="replace", newline="\n")
        self.addCleanup(screen.close)
        return run, terminal, screen

    def ended(self, run):
        """Returns the exit code of a run, which has to end."""
        self.until(lambda: not self.lives(run), "the run has not ended", LIMIT)
        return os.waitstatus_to_exitcode(os.waitpid(run, 0)[1])

    def signalled_while_the_emulator_starts(self, name, *words):
        """Starts a private run, which gets this signal before its emulator is there."""
        os.rename(self.home + "/bin/verbenad", self.home + "/bin/verbenad-itself")
        daemon = self.script("bin/verbenad", '#!/bin/sh\nwhile [ ! -s "$PIDFILE" ]; do sleep 0.05; done\n'
                                             f'kill -{name} "$(cat "$PIDFILE")"\nexec "$0-itself" "$@"\n')
        os.chmod(daemon, 0o755)
        self.env["PIDFILE"] = self.home + "/pid"
        run = self.start("--private", *words)
        self.script("new", f"{run.pid}\n")
        os.rename(self.home + "/new", self.home + "/pid")
        return run

    def private_dirs(self):
        """Returns the directories of the private emulators that exist."""
        return sorted(str(path) for path in pathlib.Path(self.dir).glob("private-*"))

    def daemons(self):
        """Returns the emulators below this test's home."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and self.home.encode() in (entry / "cmdline").read_bytes().split(b"\0")[0]:
                    found += [int(entry.name)] if (entry / "comm").read_text() == "verbenad\n" else []
            except OSError:
                pass
        return found

    def nothing_is_left(self):
        self.assertEqual(self.private_dirs(), [])
        self.until(lambda: self.daemons() == [], "a daemon still lives", LIMIT)

    def script(self, name, text):
        path = pathlib.Path(self.home, name)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def lives(self, pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
        except OSError:
            return False

    def text_of(self, path):
        """Waits until the file has a line, and returns its text."""
        def is_there():
            return os.path.exists(path) and pathlib.Path(path).read_text().endswith("\n")
        self.until(is_there, f"no {path}", LIMIT)
        return pathlib.Path(path).read_text().strip()
