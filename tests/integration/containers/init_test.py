#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Process 1 of a container without an init: `verbena run`, and a program that has the devices of an emulator outside.

init_test.py BUILD
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "provider"))
from device import Emulator, free_port  # noqa: E402

BUILD = None
LIMIT = 60
NAMESPACES = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-current-user"]), "--pid", "--fork", "--mount-proc",
              "--kill-child"]


def can_have_namespaces():
    return subprocess.run([*NAMESPACES, "true"], capture_output=True, check=False).returncode == 0


def until(condition):
    end = time.monotonic() + LIMIT
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.02)
    return found


class Case(unittest.TestCase):
    def setUp(self):
        self.device = self.enterContext(Emulator(BUILD))
        self.verbena = self.device.verbena
        self.environment = self.device.environment

    def own_emulator(self):
        """There is none yet, as in a container whose image has Verbena."""
        self.device.control("down")
        return ["--fabric", self.device.fabric]

    def start(self, *words, **variables):
        process = subprocess.Popen([*NAMESPACES, *words], env={**self.environment, **variables}, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def process_1(self, process):
        """As it is seen outside."""
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        return int(until(lambda: children.read_text().split())[0])

    def said(self, process, text):
        """Until a line has it."""
        for line in process.stdout:
            if text in line:
                return line
        self.fail(f"it has ended without {text!r}")

    def run_to_end(self, *words, **variables):
        process = self.start(*words, **variables)
        text, _ = process.communicate(timeout=LIMIT)
        return process.returncode, text


class Run(Case):
    def test_signals_end_the_program(self):
        """Process 1 itself does not get what it does not handle: `podman stop` would wait in vain."""
        options = self.own_emulator()
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            process = self.start(self.verbena, "run", *options, "--", "sh", "-c", "echo ready; exec sleep 1000")
            self.said(process, "ready")
            os.kill(self.process_1(process), number)
            process.communicate(timeout=LIMIT)
            self.assertEqual(process.returncode, code)

    def test_what_a_program_makes_of_a_signal(self):
        program = 'trap "echo heard; exit 7" TERM; echo ready; while :; do sleep 0.05; done'
        process = self.start(self.verbena, "run", *self.own_emulator(), "--", "sh", "-c", program)
        self.said(process, "ready")
        os.kill(self.process_1(process), signal.SIGTERM)
        text, _ = process.communicate(timeout=LIMIT)
        self.assertEqual((process.returncode, text), (7, "heard\n"))

    def test_it_reaps(self):
        """What the program leaves to process 1: orphans that end before it does."""
        pids = self.device.folder / "pids"
        orphans = f"for i in 1 2 3 4 5; do (sleep 0.1 & echo $! >>{pids}); done"
        look = f"for orphan in $(cat {pids}); do while [ -e /proc/$orphan ]; do sleep 0.05; done; done; echo none"
        process = self.start(self.verbena, "run", *self.own_emulator(), "--", "sh", "-c", f"{orphans}; ({look}) & exec sleep 30")
        self.said(process, "none")

    def test_it_ends_with_the_program(self):
        """Whatever that has left: the kernel ends it with the container."""
        code, text = self.run_to_end(self.verbena, "run", *self.own_emulator(), "--", "sh", "-c", "sleep 1000 & exit 3")
        self.assertEqual((code, text), (3, ""))
        self.assertEqual(self.run_to_end(self.verbena, "run", "--", "/no/such/program")[0], 127)

    def test_devices(self):
        code, text = self.run_to_end(self.verbena, "run", *self.own_emulator(), "--", "ibv_devinfo", "-d", "verbena0")
        self.assertEqual(code, 0, text)
        self.assertIn("PORT_ACTIVE", text)

    def test_a_pair_and_its_limit(self):
        port = free_port()
        pair = [f"ibv_rc_pingpong -p {port} -n 100", f"ibv_rc_pingpong -p {port} -n 100 127.0.0.1"]
        code, text = self.run_to_end(self.verbena, "run", "--private", "--timeout", "60", "--pair", *pair)
        self.assertEqual(code, 0, text)
        code, text = self.run_to_end(self.verbena, "run", "--private", "--timeout", "1", "--pair", pair[0], "sleep 1000")
        self.assertEqual(code, 124, text)
        self.assertRegex(text, r"ibv_rc_pingpong\[\d+\]: RC QP 0x\w+ is in INIT")

    def test_an_emulator_in_the_foreground(self):
        process = self.start(self.verbena, "up", "--foreground", *self.own_emulator())
        until(lambda: self.device.control("status").returncode == 0)
        os.kill(self.process_1(process), signal.SIGTERM)
        process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0)


class Siblings(Case):
    """Containers share a runtime directory. The emulator runs in one and does not see the processes of the others."""

    def test_a_program(self):
        options = self.own_emulator()
        self.start(self.verbena, "up", "--foreground", *options)
        until(lambda: self.device.control("status").returncode == 0)
        code, text = self.run_to_end(self.verbena, "run", *options, "--", "ibv_devinfo", "-d", "verbena0")
        self.assertEqual(code, 0, text)
        self.assertIn("PORT_ACTIVE", text)


class Program(Case):
    """It has the devices of an emulator outside, as `verbena cdi` gives them."""

    def setUp(self):
        super().setUp()
        shown = json.loads(self.device.control("env", "--json").stdout)["variables"]
        self.environment = {**self.environment, **shown}

    def contexts(self):
        status = json.loads(self.device.control("status", "--json").stdout)
        return [context for device in status["devices"] for context in device["contexts"]]

    def test_a_pair(self):
        words = ["ibv_rc_pingpong", "-n", "100", "-p", str(free_port())]
        server = self.start(*words)
        until(lambda: self.contexts())
        until(lambda: self.run_to_end(*words, "127.0.0.1")[0] == 0)
        text, _ = server.communicate(timeout=LIMIT)
        self.assertEqual(server.returncode, 0, text)

    def test_the_emulator_notices_its_death(self):
        process = self.start("ibv_rc_pingpong", "-p", "0")
        until(self.contexts)
        os.kill(self.process_1(process), signal.SIGKILL)
        until(lambda: not self.contexts())

    def test_a_time_limit(self):
        """`run` in there says what its program waits for, whose number outside is another one."""
        code, text = self.run_to_end(self.verbena, "run", "--timeout", "1", "--", "ibv_rc_pingpong", "-p", "0")
        self.assertEqual(code, 124, text)
        self.assertRegex(text, r"ibv_rc_pingpong\[\d+\]: RC QP 0x\w+ is in INIT")


if __name__ == "__main__":
    BUILD = sys.argv[1]
    if not can_have_namespaces():
        print("no process namespaces here")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
