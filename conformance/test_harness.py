# SPDX-License-Identifier: BSD-2-Clause
"""Tests the harness with programs whose behaviour is known: /bin/sh, and servers of a few lines."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from harness import case as cases  # noqa: E402
from harness import device as devices  # noqa: E402
from harness import manifest as manifests  # noqa: E402
from harness import processes  # noqa: E402

SERVE = ("import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); c, _ = s.accept(); "
         "c.sendall(b'hello'); c.close()")
ASK = ("import socket, sys; c = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); "
       "print('got', c.recv(9).decode(), '12.5 usec')")


class HarnessTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="verbena-harness-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.counter = self.folder / "counter"
        self.counter.write_text("0\n")
        (self.folder / "serve.py").write_text(SERVE)
        (self.folder / "ask.py").write_text(ASK)
        self.device = devices.PresentDevice("dummy0,127.0.0.1", "root", counters=self.counter)

    def run_case(self, **fields):
        fields = {"name": "x", "success": ".", "packets": 0, "timeout": 10.0, **fields}
        return cases.run_case(manifests.Case(**fields), self.device, "roce", self.folder / "case")

    def assert_fails(self, reason, **fields):
        self.assertIn(reason, self.run_case(**fields).reason)

    def moving(self, packets):
        """Returns a shell command that sets the packet counter. Like a kernel's counter, it is never seen half written."""
        return f"echo {packets} >{self.counter}.next; mv {self.counter}.next {self.counter}"


class SingleProgram(HarnessTest):
    def test_pass(self):
        self.assertEqual("", self.run_case(client="echo fine", success="^fine$").reason)

    def test_words_are_filled_in_commands_and_patterns(self):
        self.assertEqual("", self.run_case(client="echo {device} {g}", success="^{device} -g 0$").reason)

    def test_exit_code_counts(self):
        self.assert_fails("ended with 3", client="sh -c 'echo fine; exit 3'", success="fine")

    def test_death_by_signal_is_told(self):
        self.assert_fails("died of signal 11", client="sh -c 'kill -SEGV $$'")

    def test_missing_success_pattern(self):
        self.assert_fails("never said", client="echo other", success="^fine$")

    def test_forbidden_words(self):
        self.assert_fails("said 'invalid data'", client="echo fine, invalid data", forbid="invalid data")

    def test_value_zero_fails(self):
        self.assert_fails("not above 0", client="echo bw = 0 GB", value=r"= ([\d.]+)")

    def test_value_above_zero_passes(self):
        self.assertEqual("", self.run_case(client="echo bw = 0.5 GB", value=r"= ([\d.]+)").reason)

    def test_missing_value_fails(self):
        self.assert_fails("no value", client="echo nothing", value=r"= ([\d.]+)")

    def test_program_that_is_not_installed_fails(self):
        self.assert_fails("not installed", client="surely-no-such-program")

    def test_deadline(self):
        started = time.monotonic()
        self.assert_fails("did not end within 0.3 s", client="sleep 60", timeout=0.3)
        self.assertLess(time.monotonic() - started, 5)

    def test_before_and_after(self):
        verdict = self.run_case(before=("touch {tmp}/made",), client="ls {tmp}", success="^made$",
                                after=("cmp {tmp}/made /dev/null",))
        self.assertEqual("", verdict.reason)
        shutil.rmtree(verdict.folder)
        self.assert_fails("'false' ended with 1", client="echo fine", after=("false",))


class PacketCounter(HarnessTest):
    def test_a_program_that_moved_no_packet_does_not_count(self):
        self.assert_fails("sent 0 packets, at least 5", client="echo fine", packets=5)

    def test_enough_packets(self):
        verdict = self.run_case(client=f"sh -c 'echo fine; {self.moving(7)}'", packets=5)
        self.assertEqual(("", 7), (verdict.reason, verdict.packets))

    def test_unreadable_counter_fails(self):
        self.counter.unlink()
        self.assert_fails("no packet counter", client="echo fine")


class Refusals(HarnessTest):
    def test_refused_in_the_right_words(self):
        self.assertEqual("", self.run_case(client="sh -c 'echo not capable; exit 1'", outcome="refused",
                                           text="not capable").reason)

    def test_refused_in_other_words(self):
        self.assert_fails("did not say", client="sh -c 'echo oops; exit 1'", outcome="refused", text="not capable")

    def test_not_refused_at_all(self):
        self.assert_fails("it had to refuse", client="echo not capable", outcome="refused", text="not capable")

    def test_a_crash_is_no_refusal(self):
        self.assert_fails("signal", client="sh -c 'echo not capable; kill -ABRT $$'", outcome="refused",
                          text="not capable")


class ServerAndClient(HarnessTest):
    def pair(self, **fields):
        return {"server": f"/usr/bin/python3 {self.folder}/serve.py {{port}}",
                "client": f"/usr/bin/python3 {self.folder}/ask.py {{port}}", "success": "got hello",
                "value": r"([\d.]+) usec", **fields}

    def test_pass(self):
        self.assertEqual("", self.run_case(**self.pair()).reason)

    def test_server_that_ends_before_it_listens(self):
        self.assert_fails("ended with 4 before it listened", **self.pair(server="sh -c 'exit 4'"))

    def test_server_that_never_listens(self):
        self.assert_fails("does not listen", **self.pair(server="sleep 60", timeout=0.3))

    def test_exit_code_of_the_server_counts(self):
        server = f"sh -c '/usr/bin/python3 {self.folder}/serve.py {{port}}; exit 5'"
        self.assert_fails("the server ended with 5", **self.pair(server=server))

    def test_server_that_never_exits_is_ended_with_its_children(self):
        marker = f"{self.folder}/child"
        server = (f"sh -c 'sleep 600 & echo $! >{marker}; /usr/bin/python3 {self.folder}/serve.py {{port}}; "
                  "sleep 600'")
        self.assertEqual("", self.run_case(**self.pair(server=server, server_ends=False)).reason)
        child = pathlib.Path(marker).read_text().strip()
        status = pathlib.Path("/proc", child, "stat")
        self.assertTrue(not status.exists() or ") Z " in status.read_text())

    def test_a_server_that_is_ended_may_count_a_little_later(self):
        server = (f"sh -c '/usr/bin/python3 {self.folder}/serve.py {{port}}; sleep 0.3; {self.moving(9)}; sleep 600'")
        verdict = self.run_case(**self.pair(server=server, server_ends=False, packets=9))
        self.assertEqual(("", 9), (verdict.reason, verdict.packets))

    def test_server_success(self):
        self.assert_fails("the server never said", **self.pair(server_success="done"))

    def test_ready_by_output(self):
        server = f"sh -c 'echo ready; exec /usr/bin/python3 {self.folder}/serve.py {{port}}'"
        client = f"sh -c 'until /usr/bin/python3 {self.folder}/ask.py {{port}} 2>/dev/null; do :; done'"
        self.assertEqual("", self.run_case(**self.pair(server=server, client=client, ready="output:^ready$")).reason)

    def test_cm_client_asks_again_while_nobody_listens(self):
        server = f"sh -c 'sleep 0.5; exec /usr/bin/python3 {self.folder}/serve.py {{port}}'"
        self.assertEqual("", self.run_case(**self.pair(server=server, ready="cm", retry="refused")).reason)

    def test_cm_client_with_another_error_does_not_ask_again(self):
        self.assert_fails("the client ended with 1", **self.pair(server="sleep 60", ready="cm", retry="other words",
                                                                server_ends=False))


class Watching(HarnessTest):
    def test_events_during(self):
        client = f"sh -c 'echo watching; until [ -e {{tmp}}/event ]; do :; done; echo seen; sleep 600'"
        self.assertEqual("", self.run_case(client=client, ready="output:watching", during=("touch {tmp}/event",),
                                           success="^seen$").reason)

    def test_event_that_never_shows(self):
        self.assert_fails("never said '^seen$'", client="sh -c 'echo watching; sleep 600'", timeout=0.5,
                          ready="output:watching", during=("true",), success="^seen$")


class Ports(unittest.TestCase):
    def test_listening_is_seen_and_ends(self):
        import socket
        port = processes.fresh_port()
        self.assertFalse(processes.is_listening(port))
        with socket.create_server(("127.0.0.1", port)):
            self.assertTrue(processes.is_listening(port))
        self.assertFalse(processes.is_listening(port))

    def test_ports_are_fresh(self):
        ports = [processes.fresh_port() for _ in range(50)]
        self.assertEqual(50, len(set(ports)))


class Manifests(unittest.TestCase):
    def refused(self, text, reason):
        with self.assertRaisesRegex(manifests.ManifestError, reason):
            manifests.parse(text)

    def test_those_in_the_repository_are_sound(self):
        for path in sorted((HERE / "manifests").glob("*.toml")):
            if "pyverbs" not in path.name:
                with self.subTest(path.name):
                    self.assertTrue(manifests.load(path))

    def test_defaults_and_each(self):
        read = manifests.parse("[defaults]\ntimeout = 5.0\n[[case]]\nname = 'a'\neach = ['', '-e -n 3']\n"
                               "client = 'p {each} {host}'\nsuccess = 'x'\n")
        self.assertEqual([("a.plain", "p  {host}"), ("a.e_n_3", "p -e -n 3 {host}")],
                         [(case.name, case.client) for case in read])
        self.assertEqual(5.0, read[0].timeout)

    def test_errors(self):
        self.refused("", "no case")
        self.refused("x = [", "")
        self.refused("[[case]]\nname = 'a'\nclient = 'b'\nsucess = 'x'\n", "unknown key sucess")
        self.refused("[[case]]\nname = 'a'\nclient = 'b'\n", "success pattern or a value")
        self.refused("[[case]]\nname = 'a'\nclient = 'b'\noutcome = 'refused'\n", "exact text")
        self.refused("[[case]]\nname = 'a'\nclient = 'b'\noutcome = 'maybe'\nsuccess = 'x'\n", "outcome")
        self.refused("[[case]]\nname = 'a'\nclient = 'b'\nsuccess = '('\n", "success")
        self.refused("[[case]]\nname = 'a'\nclient = 'b'\nvalue = 'x'\n", "group")
        self.refused("[[case]]\nname = 'a'\nclient = 'b'\nsuccess = 'x'\nusers = ['someone']\n", "someone")
        same = "[[case]]\nname = 'a'\nclient = 'b'\nsuccess = 'x'\n"
        self.refused(same + same, "twice")


class CommandLine(unittest.TestCase):
    def test_without_a_product_it_cannot_start(self):
        done = subprocess.run([HERE / "run", "--prefix", "/nonexistent", "verbs"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(2, done.returncode)
        self.assertIn("no product in /nonexistent", done.stderr)

    def test_failures_show_in_the_exit_code(self):
        with tempfile.TemporaryDirectory() as folder:
            manifest = pathlib.Path(folder, "m.toml")
            manifest.write_text("[[case]]\nname = 'a'\nclient = 'true'\nsuccess = '^'\n")
            done = subprocess.run([HERE / "run", "--present", "nosuchdevice,127.0.0.1", manifest], capture_output=True,
                                  text=True, check=False, env={**os.environ, "TMPDIR": folder})
        self.assertEqual(1, done.returncode, done.stdout + done.stderr)
        self.assertIn("no packet counter", done.stdout)


if __name__ == "__main__":
    unittest.main()
