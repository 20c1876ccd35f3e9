#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Programs whose standard streams are closed, broken or full: what is explained to them harms neither them nor the
emulator. And programs whose names are no plain words.

    streams_test.py PREFIX STREAMS [unittest arguments]
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "provider"))
import device as devices  # noqa: E402

LIMIT = 60
PREFIX = PROGRAM = None
SUBSETS = ((0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2))


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = cls.enterClassContext(devices.Emulator(PREFIX))
        cls.device.environment["VERBENA_LOG"] = "explain-all"

    def explained(self, *words, **environment):
        return subprocess.run(self.device.wrap([PROGRAM, *words]), env=self.device.environment | environment, text=True,
                              capture_output=True, timeout=LIMIT, check=False)


class Closed(Case):
    def closed(self, fds, **environment):
        """Returns what the program has found wrong."""
        shut = " ".join(f"{fd}>&-" for fd in fds)
        with tempfile.NamedTemporaryFile("r") as said:
            done = subprocess.run(self.device.wrap(["sh", "-c", f'exec "$0" closed "$1" {shut}', PROGRAM, said.name]),
                                  env=self.device.environment | environment, text=True, capture_output=True,
                                  timeout=LIMIT, check=False)
            self.assertEqual(done.returncode, 0, (fds, done))
            return said.read()

    def test_nothing_of_ours_takes_the_place_of_a_stream(self):
        for link in ("auto", "udp"):
            for fds in SUBSETS:
                kept = tuple(f"{fd} is " for fd in range(3) if fd not in fds)
                wrong = [line for line in self.closed(fds, VERBENA_LINK=link).splitlines() if not line.startswith(kept)]
                self.assertEqual(wrong, [], (link, fds))

    def test_trace(self):
        self.assertNotIn("dead", self.closed((2,), VERBENA_PRELOAD_TRACE="1"))

    def test_emulator(self):
        """The emulator's own files do not take these places either, whoever starts it."""
        for fds in SUBSETS:
            with tempfile.TemporaryDirectory(prefix="verbena-streams-") as folder:
                environment = self.device.environment | {"VERBENA_RUNTIME_DIR": folder + "/run"}
                os.mkdir(folder + "/run", 0o700)
                shut = " ".join(f"{fd}>&-" for fd in fds)
                daemon = subprocess.Popen(["sh", "-c", f'exec "$0" --private --foreground --log-level trace {shut}',
                                           PREFIX + "/bin/verbenad"], env=environment, stdout=subprocess.DEVNULL,
                                          stderr=subprocess.DEVNULL)
                try:
                    self.until_up(environment, daemon)
                    for fd in fds:
                        self.assertEqual(os.readlink(f"/proc/{daemon.pid}/fd/{fd}"), "/dev/null", fds)
                    done = subprocess.run([self.device.verbena, "run", "--", PROGRAM, "closed", folder + "/said"],
                                          env=environment, capture_output=True, timeout=LIMIT, check=False)
                    self.assertEqual(done.returncode, 0, done)
                finally:
                    daemon.terminate()
                    daemon.wait(LIMIT)

    def until_up(self, environment, daemon):
        while subprocess.run([self.device.verbena, "status"], env=environment, capture_output=True, check=False).returncode:
            self.assertIsNone(daemon.poll())


class Broken(Case):
    def test_nobody_reads_any_more(self):
        """No SIGPIPE kills the program, and none of the program's own is taken away."""
        done = self.explained("gone")
        self.assertEqual((done.returncode, done.stdout), (0, "alive\n"), done)

    def test_full(self):
        """The program goes on soon, and the next line that can be written says how many are missing."""
        done = self.explained("full")
        self.assertEqual(done.returncode, 0, done)
        first, second, alive = done.stdout.splitlines()
        self.assertRegex(first, r"^verbena: streams\[\d+\]: ibv_reg_mr.* \(20 lines before it could not be written\)$")
        self.assertRegex(second, r"^verbena: streams\[\d+\]: ibv_reg_mr: length is 0( \(such a line .*time\))?$")
        self.assertEqual(alive, "alive")

    def test_a_file_that_may_not_grow(self):
        with tempfile.TemporaryFile() as file:
            done = subprocess.run(self.device.wrap([PROGRAM, "limited"]), env=self.device.environment, text=True,
                                  stdout=subprocess.PIPE, stderr=file, timeout=LIMIT, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "alive\n"), done)

    def test_trace_of_the_preload_library(self):
        done = self.explained("gone", VERBENA_PRELOAD_TRACE="1")
        self.assertEqual((done.returncode, done.stdout), (0, "alive\n"), done)


class Forked(Case):
    def test_a_child_speaks_for_itself(self):
        """It neither reports the lines that its parent has left out, nor counts them."""
        done = self.explained("forked", VERBENA_LOG="explain")
        self.assertEqual(done.returncode, 0, done)
        parent, child = done.stdout.split()
        for pid, rest in ((parent, [" (such a line for the 10th time)", " (and 9 more such lines that were left out)"]),
                          (child, [" (and 5 more such lines that were left out)"])):
            lines = re.findall(rf"^verbena: streams\[{pid}\]: ibv_reg_mr: length is 0(.*)$", done.stderr, re.MULTILINE)
            self.assertEqual(lines, ["", *rest], done.stderr)


class Names(Case):
    NAME = "a\nb\x1b[31mX"

    def test_names_that_are_no_words(self):
        """A name neither splits a line nor reaches the terminal. JSON has the exact name."""
        plain = "a?b?[31mX"
        command = self.device.wrap(["bash", "-c", 'exec -a "$1" "$0" named "$1"', PROGRAM, self.NAME])
        program = subprocess.Popen(command, env=self.device.environment, text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(program.kill)
        self.assertEqual(program.stdout.readline(), "here\n")
        for command in ("status", "events", "waits"):
            said = self.device.control(command).stdout
            self.assertNotIn("\x1b", said)
            self.assertNotRegex(said, r"(?m)^b")
        self.assertIn(f"({plain})", self.device.control("status").stdout)
        self.assertIn(f" {plain}[{program.pid}] ", self.device.control("events").stdout)
        exact = json.loads(self.device.control("status", "--json").stdout)
        self.assertEqual(exact["devices"][0]["contexts"][0]["program"], self.NAME)
        events = [json.loads(line) for line in self.device.control("events", "--json").stdout.splitlines()]
        self.assertIn(self.NAME, [event.get("program") for event in events])
        _, said = program.communicate("", LIMIT)
        self.assertIn(f"verbena: {plain}[{program.pid}]: ibv_reg_mr", said)
        log = next(pathlib.Path(self.device.environment["VERBENA_RUNTIME_DIR"]).glob("*.log")).read_text()
        self.assertNotIn("\x1b", log)


if __name__ == "__main__":
    PREFIX, PROGRAM = sys.argv[1], os.path.abspath(sys.argv[2])
    del sys.argv[1:3]
    unittest.main(verbosity=2)
