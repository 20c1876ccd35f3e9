# SPDX-License-Identifier: BSD-2-Clause
"""The base of all tests of the emulator's programs."""

import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

BIN = None  # the folder of verbena and verbenad; set by emulator_test.py


def free_fabric(number):
    """Returns a part of 127.0.0.0/8, from this number on, that no other test uses at the moment."""
    while True:
        network = f"127.{100 + (number >> 8) % 100}.{number & 255}"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((network + ".1", 4791))
                return network + ".0/24"
            except OSError:
                number += 1


class EmulatorCase(unittest.TestCase):
    """Each test has a runtime directory and a part of 127.0.0.0/8 of its own."""

    counter = 0

    def setUp(self):
        EmulatorCase.counter += 1
        self.home = tempfile.mkdtemp(prefix="verbena-test-")
        os.chmod(self.home, 0o755)
        # The folder has the programs, and beside them, where they look for it, a preload library that does nothing.
        shutil.copytree(BIN, self.home + "/bin", ignore=lambda _, names: [
            n for n in names if n not in ("verbena", "verbenad")])
        os.mkdir(self.home + "/lib")
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o",
                        self.home + "/lib/libverbena-preload.so"], check=True)
        self.dir = self.home + "/run"
        self.fabric = free_fabric(os.getpid() * 64 + EmulatorCase.counter)
        self.address = self.fabric.replace(".0/24", ".1")
        self.env = dict(os.environ, VERBENA_RUNTIME_DIR=self.dir, XDG_CONFIG_HOME=self.home)
        for name in ("LD_PRELOAD", "RDMAV_DRIVERS", "IBV_DRIVERS", "VERBENA_LOG", "VERBENA_LINK"):
            self.env.pop(name, None)
        # Unlike the real one, this preload library does not tell a sanitizer's runtime that it may come first.
        self.env["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"

    def tearDown(self):
        pid = self.daemon_pid()
        if pid:
            with contextlib.suppress(ProcessLookupError):  # the process was about to end
                os.kill(pid, signal.SIGTERM)
            self.wait_for_end(pid, 10)
        shutil.rmtree(self.home, ignore_errors=True)

    def daemon_pid(self):
        """Returns the daemon's process id, or nothing if it does not live."""
        try:
            with open(self.dir + "/daemon.lock") as lock:
                pid = int(lock.read())
            with open(f"/proc/{pid}/comm") as comm:
                return pid if comm.read().strip() == "verbenad" else None
        except (OSError, ValueError):
            return None

    def assert_took_less(self, pid, most):
        """Asserts how many KiB of memory the process took at most. AddressSanitizer does not return freed memory: no
        check then."""
        if "libasan" in pathlib.Path(f"/proc/{pid}/maps").read_text():
            return
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        self.assertLess(int(status.split("VmHWM:")[1].split()[0]), most)

    def verbena(self, *words, env=None, **more):
        return subprocess.run([self.home + "/bin/verbena", *words], env=env or self.env, text=True,
                              capture_output=True, timeout=60, **more)

    def up(self, *words):
        done = self.verbena("up", "--fabric", self.fabric, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def status(self):
        done = self.verbena("status", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def wait_for_end(self, pid, seconds=15):
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        ended = select.select([fd], [], [], seconds)[0]
        os.close(fd)
        self.assertTrue(ended, f"process {pid} still lives")

    def until(self, condition, what, seconds=10):
        """Waits until another process has done something that it does not announce."""
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)

    def shadow(self, path):
        return self.dir + "/shadow/sys/class/" + path

    def read(self, path):
        with open(self.shadow(path)) as file:
            return file.read()
