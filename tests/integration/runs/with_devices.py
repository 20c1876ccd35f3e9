# SPDX-License-Identifier: BSD-2-Clause
"""Runs programs that use the device, as private pairs."""

import contextlib
import json
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import device as devices
import run_case
import seccomp


class Devices(unittest.TestCase):
    def pair(self, server, client, *words, in_front=()):
        verbena = run_case.BUILD + "/bin/verbena"
        with tempfile.TemporaryDirectory(prefix="verbena-test-") as home:
            env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "VERBENA_RUNTIME_DIR": home + "/run",
                   "VERBENA": verbena}
            done = subprocess.run([*in_front, verbena, "run", "--private", *words, "--pair", server, client], env=env, text=True,
                                  capture_output=True, timeout=run_case.LIMIT, check=False)
            self.assertEqual(os.listdir(home + "/run"), [])
        return done

    def test_a_server_with_a_tcp_port(self):
        port = devices.free_port()
        done = self.pair(f"ibv_rc_pingpong -p {port}", f"ibv_rc_pingpong -p {port} 127.0.0.1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for side in ("server", "client"):
            self.assertRegex(done.stdout, side + r"\| 8192000 bytes in [\d.]+ seconds")

    def test_a_server_that_listens_with_rdma_cm(self):
        address = "$VERBENA status --json | sed -n 's/.*\"address\": *\"\\(127[0-9.]*\\).*/\\1/p' | head -n 1"
        done = self.pair("rping -s -C 3 -v", f'rping -c -C 3 -v -a "$({address})"')
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("client| ping data: rdma-ping-"), 3)
        self.assertNotIn("listens nowhere", done.stderr)

    def test_a_server_that_polls(self):
        """The server connects, spins and listens nowhere, and its peer is silent. The client starts all the same."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            polls = f"ibv_rc_pingpong -p {silent.getsockname()[1]} 127.0.0.1 & while :; do :; done"
            done = self.pair(polls, "echo here", "--timeout", "30")
        self.assertEqual((done.returncode, done.stdout), (0, "client| here\n"), done.stderr)
        self.assertEqual(done.stderr, "verbena: the server is at work and listens nowhere that can be seen; the client is started "
                         "all the same\n")

    def test_a_program_without_an_emulator_is_told_why_it_has_no_device(self):
        library = {"LD_PRELOAD": run_case.BUILD + "/lib/libverbena-preload.so", "RDMAV_DRIVERS": run_case.BUILD + "/lib/libverbena"}
        with tempfile.TemporaryDirectory(prefix="verbena-test-") as home:
            for where, told in ((home, f"no emulator is running in {home}; start one with: verbena up"),
                                (home + "/no", f"runtime directory {home}/no: No such file or directory"),
                                ("other", "VERBENA_RUNTIME_DIR=other is no absolute path")):
                env = {**library, "PATH": "/usr/bin:/bin", "VERBENA_RUNTIME_DIR": where, "VERBENA_LOG": "explain"}
                done = subprocess.run(["ibv_devices"], env=env, text=True, capture_output=True, timeout=run_case.LIMIT, check=False)
                self.assertRegex(done.stderr, rf"^verbena: ibv_devices\[\d+\]: no emulated device for this program: {told}\n")

    def test_programs_that_hang(self):
        """When the time is up, the run says and keeps what its programs wait for, and leaves out other programs."""
        verbena = run_case.BUILD + "/bin/verbena"
        with tempfile.TemporaryDirectory(prefix="verbena-test-", ignore_cleanup_errors=True) as home:
            env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "VERBENA_RUNTIME_DIR": home + "/run"}

            def run(*words):
                return subprocess.run([verbena, "run", *words], env=env, text=True, capture_output=True,
                                      timeout=run_case.LIMIT, check=False)

            server = f"ibv_rc_pingpong -p {devices.free_port()}"
            done = run("--private", "--timeout", "2", "--artifacts", home + "/kept", "--", *server.split())
            self.assertEqual(done.returncode, 124, done.stderr)
            found = re.search(r"^verbena: what the programs waited for when the time was up:\n"
                              r"(verbena: ibv_rc_pingpong\[\d+\]: RC QP 0x\w{6} is in INIT: .*\n)"
                              r"verbena: it took longer than 2s and was ended$", done.stderr, re.MULTILINE)
            self.assertIsNotNone(found, done.stderr)
            kept = pathlib.Path(home, "kept")
            self.assertEqual((kept / "explain.log").read_text(), found[1])
            then, after = (json.loads((kept / name).read_text())["devices"][0]["contexts"]
                           for name in ("status-at-timeout.json", "status.json"))
            self.assertEqual([qp["state"] for context in then for qp in context["qps"]], ["INIT"])
            self.assertEqual(after, [])

            inner = f"{verbena} run --timeout 2 -- rping -s; echo $?"
            done = run("--fabric", "127.91.0.0/16", "--", "sh", "-c", f"{server} & {inner}; kill $!")
            self.assertEqual(done.stdout.splitlines()[-1], "124", done.stderr)
            self.assertRegex(done.stderr, r"verbena: rping\[\d+\]: listens at 0.0.0.0:\d+ with rdma_cm, and nobody is connected")
            self.assertNotIn("ibv_rc_pingpong", done.stderr)

    def test_words_that_nobody_reads_do_not_hold_up_the_end(self):
        verbena = run_case.BUILD + "/bin/verbena"
        read, write = os.pipe()
        os.set_blocking(write, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(write, b"." * 4096)
        os.set_blocking(write, True)
        with tempfile.TemporaryDirectory(prefix="verbena-test-") as home:
            env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "VERBENA_RUNTIME_DIR": home + "/run"}
            words = ["--private", "--timeout", "2", "--", "sh", "-c", f"echo $$; exec ibv_rc_pingpong -p {devices.free_port()}"]
            run = subprocess.Popen([verbena, "run", *words], env=env, text=True, stdout=subprocess.PIPE, stderr=write)
            os.close(write)
            program = pathlib.Path("/proc", run.stdout.readline().strip())
            end = time.monotonic() + run_case.LIMIT
            while program.exists():
                self.assertLess(time.monotonic(), end, "it lives on")
                time.sleep(0.05)
            self.assertIsNone(run.poll(), "its words were not written")
            with os.fdopen(read, "rb") as said:
                self.assertIn(b"what the programs waited for", said.read())
            run.communicate()
            self.assertEqual(run.returncode, 124)

    def test_a_server_that_works(self):
        done = self.pair("while :; do :; done", "echo here", "--timeout", "11")
        self.assertEqual((done.returncode, done.stdout), (124, ""))
        self.assertEqual(done.stderr, "verbena: the server is at work and listens nowhere that can be seen; the client waits for "
                         "it\nverbena: the client was not started: the server could not be reached until then\n"
                         "verbena: none of its programs had a device open when the time was up\n"
                         "verbena: it took longer than 11s and was ended\n")

    def test_faults_and_failures(self):
        port = devices.free_port()
        words = ["--loss", "2%", "--seed", "7", "--timeout", "50"]
        done = self.pair(f"ibv_rc_pingpong -n 200 -p {port}", f"ibv_rc_pingpong -n 200 -p {port} 127.0.0.1; "
                         "$VERBENA status --json", *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r'"lost":[1-9]')
        done = self.pair(f"ibv_rc_pingpong -p {port}", f"ibv_rc_pingpong -p {port} 127.0.0.1", "--fail", "ibv_reg_mr=ENOMEM")
        self.assertEqual(done.returncode, 1)
        self.assertIn("Couldn't register MR", done.stderr)

    def test_the_last_acknowledgement_outlives_its_program(self):
        for words in (["--delay", "5ms"], ["--rate", "1Gbit"], ["--inject", "delay=5ms"]):
            for link in ("auto", "udp"):
                port = devices.free_port()
                with self.subTest(words=words, link=link):
                    done = self.pair(f"VERBENA_LINK={link} ibv_rc_pingpong -n 20 -p {port}",
                                     f"VERBENA_LINK={link} ibv_rc_pingpong -n 20 -p {port} 127.0.0.1", *words)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_where_there_is_no_netlink(self):
        """Without netlink libibverbs finds the devices in /sys, as in sandboxes, and reads their ABI version there."""
        program = ("import os, sys; sys.path.insert(0, sys.argv[1]); import seccomp; "
                   "seccomp.forbid('socket', seccomp.AF_NETLINK)(); os.execvp(sys.argv[2], sys.argv[2:])")
        without = [sys.executable, "-c", program, os.path.dirname(seccomp.__file__)]
        port = devices.free_port()
        sides = f"ibv_rc_pingpong -n 20 -p {port}", f"ibv_rc_pingpong -n 20 -p {port} 127.0.0.1"
        with self.subTest("for the programs"):
            done = self.pair(*(f"{shlex.join(without)} {side}" for side in sides))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with self.subTest("for the emulator either"):
            done = self.pair(*sides, in_front=without)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_explanations_are_kept(self):
        with tempfile.TemporaryDirectory(prefix="verbena-test-") as home:
            done = self.pair("ibv_rc_pingpong", "true", "--fail", "ibv_reg_mr=ENOMEM", "--artifacts", home)
            self.assertEqual(done.returncode, 1)
            with open(home + "/explain.log", encoding="utf-8") as file:
                kept = file.read()
        self.assertRegex(kept, r"^verbena: ibv_rc_pingpong\[\d+\]: ibv_reg_mr")
        self.assertIn("server| " + kept.splitlines()[0], done.stderr)

    def test_rules_name_the_sides(self):
        port = devices.free_port()
        sides = (f"ibv_rc_pingpong -n 20 -p {port}", f"ibv_rc_pingpong -n 20 -p {port} 127.0.0.1; $VERBENA status --json")
        with tempfile.TemporaryDirectory(prefix="verbena-test-") as home:
            path = home + "/scenario.toml"
            with open(path, "w", encoding="ascii") as file:
                file.write('[[rule]]\naction = "drop"\nopcode = "SEND"\nnth = 3\nqp = "client:1"\n')
            done = self.pair(*sides, "--inject", "drop opcode=SEND nth=2 qp=server:1", "--scenario", path)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(re.findall(r'"fired":(\d+)', done.stdout), ["1", "1"], done.stdout)

    def test_the_capture_that_is_kept_is_bounded(self):
        """The kept capture ends with a whole block; a block has its length at both ends."""
        port = devices.free_port()
        side = f"ibv_rc_pingpong -n 400 -s 65536 -p {port}"
        with tempfile.TemporaryDirectory(prefix="verbena-test-") as home:
            done = self.pair(side, side + " 127.0.0.1", "--artifacts", home)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(home + "/capture.pcapng", "rb") as file:
                kept = file.read()
        self.assertLessEqual(len(kept), 16 << 20)
        self.assertGreater(len(kept), 15 << 20)
        place = 0
        while place < len(kept):
            length = int.from_bytes(kept[place + 4:place + 8], "little")
            self.assertEqual(kept[place + length - 4:place + length], kept[place + 4:place + 8])
            place += length
        self.assertEqual(place, len(kept))

    def test_rules_that_must_fire(self):
        port = devices.free_port()
        sides = (f"ibv_rc_pingpong -n 20 -p {port}", f"ibv_rc_pingpong -n 20 -p {port} 127.0.0.1")
        rules = ["--inject", "drop opcode=SEND nth=5 qp=client:1", "--inject", "drop opcode=WRITE nth=1"]
        never = "verbena: the rule 'drop opcode=WRITE nth=1' never fired, of 0 that it names\n"
        done = self.pair(*sides, *rules)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("verbena: the rule 'drop opcode=SEND nth=5 qp=client:1' fired once, of 80 that it names\n",
                      done.stderr)
        self.assertIn(never, done.stderr)
        done = self.pair(*sides, "--quiet", "--require-fired", *rules)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(never, done.stderr)
        self.assertNotIn("fired once", done.stderr)
        self.assertEqual(self.pair(*sides, "--require-fired", *rules[:2]).returncode, 0)
        # The program's own failure takes precedence.
        self.assertEqual(self.pair(sides[0], sides[1] + "; exit 7", "--require-fired", *rules).returncode, 7)

    def test_rules_that_cannot_be(self):
        for words in (["--require-fired"], ["--inject", "drop nth=0"]):
            with tempfile.TemporaryDirectory(prefix="verbena-test-") as home:
                done = subprocess.run([run_case.BUILD + "/bin/verbena", "run", "--private", *words, "--", "true"], text=True,
                                      env={"VERBENA_RUNTIME_DIR": home + "/run"}, capture_output=True, check=False)
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (125, 1), done.stderr)
                self.assertEqual(os.listdir(home), [])
