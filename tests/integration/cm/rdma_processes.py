# SPDX-License-Identifier: BSD-2-Clause
"""Gives each test an emulator of its own, and starts processes under `verbena run` whose lines the test awaits."""

import os
import select
import shutil
import subprocess
import tempfile
import time
import unittest

LIMIT = 60


class Program:
    """A process whose lines the test awaits."""

    def __init__(self, bin_, words, limit):
        self.words, self.limit = words, limit
        self.process = subprocess.Popen([os.path.join(bin_, "verbena"), "run", "--", *map(str, words)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.text = b""

    def expect(self, line):
        deadline = time.monotonic() + self.limit
        while line not in self.lines():
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise AssertionError(f"{self.words}: no '{line}' in {self.limit} s, but {self.lines()}")
            more = os.read(self.process.stdout.fileno(), 4096)
            if not more:
                raise AssertionError(f"{self.words}: ended with {self.process.wait()} and {self.lines()}, not '{line}'")
            self.text += more

    def expect_again(self, line):
        """Waits for a line that the process prints again and again, once more for each call."""
        self.expect(line)
        self.text = self.text.split(line.encode() + b"\n", 1)[1]

    def go_on(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def lines(self):
        return self.text.decode().split("\n")[:-1]

    def wait(self):
        """Returns the exit code and the last line."""
        more, _ = self.process.communicate(timeout=self.limit)
        self.text += more
        return self.process.returncode, self.lines()[-1]

    def kill(self):
        self.process.kill()
        self.process.communicate(timeout=self.limit)


class EmulatorTest(unittest.TestCase):
    """The base of the tests. Their main program sets BIN, PERSONA (ib or roce) and LIMIT (seconds for what must come).
    """

    BIN, PERSONA, LIMIT = "", "ib", LIMIT

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="verbena-cm-")
        os.environ["VERBENA_RUNTIME_DIR"] = self.dir
        reader, writer = os.pipe()
        self.daemon = subprocess.Popen(
            [os.path.join(self.BIN, "verbenad"), "--runtime-dir", self.dir, "--ready-fd", str(writer),
             *self.options()],
            pass_fds=[writer])
        os.close(writer)
        with os.fdopen(reader) as ready:
            self.assertEqual(ready.readline(), "ready\n")
        self.programs = []

    SUBNET = f"127.{150 + os.getpid() // 256 % 100}.{os.getpid() % 256}"

    def address(self):
        """Returns the address of the device."""
        return f"{self.SUBNET}.1"

    def options(self):
        return ["--roce", self.address()] if self.PERSONA == "roce" else ["--fabric", f"{self.SUBNET}.0/24"]

    def tearDown(self):
        for program in self.programs:
            if program.process.poll() is None:
                program.kill()
            program.process.stdin.close()
            program.process.stdout.close()
        self.daemon.terminate()
        self.daemon.wait(self.LIMIT)
        shutil.rmtree(self.dir, ignore_errors=True)

    def start(self, *words):
        self.programs.append(Program(self.BIN, words, self.LIMIT))
        return self.programs[-1]

    def verbena(self, *words):
        subprocess.run([os.path.join(self.BIN, "verbena"), *words], check=True, timeout=self.LIMIT)
