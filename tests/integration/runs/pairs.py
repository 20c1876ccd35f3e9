# SPDX-License-Identifier: BSD-2-Clause
"""`verbena run --pair` makes one command line and one exit code of a server and a client."""

import os
import pathlib
import signal
import subprocess
import sys
import time

from run_case import LIMIT, RunCase

# Listens after LATE seconds; then serves one client, or sends for ever.
SERVER = """
import os, socket, sys, time
time.sleep(float(os.environ.get("LATE", "0")))
with socket.create_server(("127.0.0.1", 0)) as server:
    with open(os.environ["PORT_FILE"] + ".new", "w") as file:
        file.write(str(server.getsockname()[1]))
    os.rename(os.environ["PORT_FILE"] + ".new", os.environ["PORT_FILE"])
    print("listening", flush=True)
    while True:
        with server.accept()[0] as peer:
            print("got " + peer.recv(100).decode(), flush=True)
        if sys.argv[1] != "forever":
            sys.exit(int(sys.argv[1]))
"""
CLIENT = """
import os, socket, sys
with socket.create_connection(("127.0.0.1", int(open(os.environ["PORT_FILE"]).read())), 30) as peer:
    peer.send(b"hello")
print("sent", flush=True)
print("complaint", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""


class Pairs(RunCase):
    def setUp(self):
        super().setUp()
        self.env["PORT_FILE"] = self.home + "/port"
        self.server = f"{sys.executable} {self.script('server.py', SERVER)}"
        self.client = f"{sys.executable} {self.script('client.py', CLIENT)}"

    def pair(self, server, client, *words, **more):
        return self.verbena("run", "--private", *words, "--pair", server, client, **more)

    def test_both_sides_are_heard(self):
        """The client starts when the server listens, and not before."""
        self.env["LATE"] = "1"
        done = self.pair(self.server + " 0", self.client + " 0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), ["client| sent", "server| got hello", "server| listening"])
        self.assertEqual(done.stderr, "client| complaint\n")
        self.nothing_is_left()

    def test_one_exit_code(self):
        for server, client, code in (("0", "3", 3), ("4", "3", 3), ("4", "0", 4), ("forever", "0", 0), ("forever", "7", 7)):
            if os.path.exists(self.env["PORT_FILE"]):
                os.remove(self.env["PORT_FILE"])
            done = self.pair(f"{self.server} {server}", f"{self.client} {client}")
            self.assertEqual(done.returncode, code, (server, client, done.stderr))
        self.nothing_is_left()

    def test_a_server_that_works_on_after_the_client(self):
        """A server that listens no more has five seconds to end, even if it sleeps; its exit code counts."""
        done = self.pair(self.server + " 0; sleep 2; exit 3", self.client + " 0")
        self.assertEqual((done.returncode, done.stderr), (3, "client| complaint\n"))
        done = self.pair(self.server + " 0; sleep 1000", self.client + " 0")
        self.assertEqual((done.returncode, done.stderr), (0, "client| complaint\nverbena: the server listened no more and has not ended "
                                                          "five seconds after the client; it is ended now\n"))
        self.nothing_is_left()

    def test_a_server_that_listens_is_ended_soon(self):
        begun = time.monotonic()
        done = self.pair(self.server + " forever", self.client + " 0")
        self.assertEqual((done.returncode, done.stderr), (0, "client| complaint\n"))
        self.assertLess(time.monotonic() - begun, 4)
        self.nothing_is_left()

    def test_with_the_ordinary_emulator(self):
        done = self.verbena("run", "--fabric", self.fabric, "--pair", self.server + " forever", self.client + " 0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(self.daemon_pid())

    def test_a_server_that_ends_at_once(self):
        touch = f"touch {self.home}/started"
        for server, code in (("exit 9", 9), ("exit 0", 125), ("no-such-program", 127)):
            done = self.pair(server, touch)
            self.assertEqual(done.returncode, code, done.stderr)
            said = server.split()[1] if server.startswith("exit") else "127"
            self.assertIn(f"verbena: the server ended with exit code {said} before the client could be started\n", done.stderr)
        self.assertFalse(os.path.exists(self.home + "/started"))

    def test_a_server_that_fails_and_leaves_others(self):
        """The run also ends the server's children, even those that ignore SIGTERM."""
        pids = self.home + "/pids"
        done = self.pair(f"sleep 1000 & echo $! >> {pids}; setsid sh -c 'trap \"\" TERM; exec sleep 1000' & echo $! >> {pids}; "
                         "sleep 0.2; exit 9", "true")
        self.assertEqual(done.returncode, 9, done.stderr)
        left = pathlib.Path(pids).read_text().split()
        self.assertEqual((len(left), [pid for pid in left if self.lives(pid)]), (2, []))
        self.nothing_is_left()

    def test_a_server_that_goes_into_the_background(self):
        done = self.pair(self.server + " forever &", self.client + " 0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("server| got hello", done.stdout)
        self.nothing_is_left()

    def test_a_server_of_which_nothing_is_seen(self):
        done = self.pair("exec sleep 1000", "echo here")
        self.assertEqual((done.returncode, done.stdout), (0, "client| here\n"))
        self.assertEqual(done.stderr, "verbena: the server listens nowhere that can be seen; the client is started all the same\n")

    def test_a_server_that_fails_before_the_client_ends(self):
        done = self.pair(self.server + " 6", self.client + f" 0 && until [ -e {self.home}/on ]; do sleep 0.1; done",
                         "--timeout", "6")
        self.assertEqual(done.returncode, 124)
        self.assertIn("verbena: the server ended with exit code 6 before the client did\n", done.stderr)

    def test_endless_and_binary_output(self):
        """Endless output costs no memory, and the run ends when its reader closes the pipe."""
        run = self.start("--private", "--pair", self.server + " forever", "cat /dev/zero")
        for _ in range(64):
            self.assertEqual(len(run.stdout.read(1 << 20)), 1 << 20)
        self.assert_took_less(run.pid, 64 << 10)
        run.stdout.close()
        self.assertEqual(run.wait(LIMIT), 128 + signal.SIGPIPE)
        self.nothing_is_left()

    def test_lines_are_cut_and_completed(self):
        done = self.pair(self.server + " forever", "printf '%9000d' 1; printf '\\n\\nend'")
        lines = [line for line in done.stdout.splitlines() if line.startswith("client| ")]
        self.assertEqual([len(line) - 8 for line in lines], [8192, 808, 0, 3])
        self.assertTrue(done.stdout.endswith("\n"))

    def test_a_reader_of_one_line(self):
        done = subprocess.run(["sh", "-c", '"$VERBENA" run --private --pair "$1" yes | head -n 1', "sh", self.server + " forever"],
                              env=self.env, text=True, capture_output=True, timeout=LIMIT, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "server| listening\n"))
        self.nothing_is_left()

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([self.exe, "run", "--private", "--pair", self.server + " forever", "echo word; sleep 1; echo more"],
                                  env=self.env, text=True, stdout=full, stderr=subprocess.PIPE, timeout=LIMIT, check=False)
        self.assertIn("verbena: cannot write the output: No space left on device\n", done.stderr)
        self.nothing_is_left()

    def test_closed_output(self):
        """The programs print to nobody, as they do alone."""
        for closed in (">&-", ">&- 2>&-", "<&- >&- 2>&-"):
            for _ in range(3):
                done = subprocess.run(["sh", "-c", f'"$VERBENA" run --private --pair "$1" "$2" {closed}; echo $?', "sh",
                                       self.server + " forever", "echo word; sleep 0.2; echo more; sleep 0.2; exit 7"],
                                      env=self.env, text=True, capture_output=True, timeout=LIMIT, check=False)
                self.assertEqual((done.stdout, done.stderr), ("7\n", ""))
        self.nothing_is_left()

    def test_whoever_does_not_read_does_not_stop_the_clock(self):
        run = self.start("--private", "--timeout", "2", "--pair", self.server + " forever", "yes")
        self.assertEqual(run.wait(LIMIT), 124)
        self.nothing_is_left()

    def test_the_clients_input_is_ours(self):
        done = self.pair(self.server + " forever", "cat", input="words\n")
        self.assertIn("client| words\n", done.stdout)

    def test_a_signal_ends_both(self):
        run = self.start("--private", "--pair", self.server + " forever", "echo ready; exec sleep 1000")
        while run.stdout.readline() != "client| ready\n":
            pass
        run.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(run).returncode, 128 + signal.SIGTERM)
        self.nothing_is_left()

    def ends_by(self, run, signal_number):
        """The run has ended by a signal, and has started nothing more."""
        done = self.finish(run)
        self.assertEqual(done.returncode, 128 + signal_number, done.stderr)
        self.assertIn(f"verbena: the client was not started: {signal.Signals(signal_number).name} came before the server could "
                      "be reached\n", done.stderr)
        self.assertFalse(os.path.exists(self.home + "/started"))
        self.nothing_is_left()

    def test_a_signal_before_the_server_can_be_reached(self):
        """No client is started, whether the server ends with 0, takes its time, or does not listen to the signal."""
        touch = f"touch {self.home}/started"
        for signal_number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            name = signal.Signals(signal_number).name[3:]
            for server in (f"trap 'exit 0' {name}; echo here; while :; do sleep 0.1; done",
                           f"trap '' {name}; echo here; sleep 1; {self.server} forever"):
                run = self.start("--private", "--pair", server, touch)
                self.assertEqual(run.stdout.readline(), "server| here\n")
                run.send_signal(signal_number)
                self.ends_by(run, signal_number)

    def test_an_interrupt_of_the_terminal_before_the_server_can_be_reached(self):
        server = f"trap '' INT; echo here; sleep 1; {self.server} forever"
        run, terminal, screen = self.in_a_terminal_of_its_own("--private", "--pair", server, f"touch {self.home}/started")
        self.addCleanup(os.close, terminal)
        while "server| here" not in screen.readline():
            pass
        os.write(terminal, b"\x03")
        self.assertEqual(self.ended(run), 128 + signal.SIGINT)
        self.assertFalse(os.path.exists(self.home + "/started"))
        self.nothing_is_left()

    def test_a_signal_while_the_emulator_starts(self):
        """Not even the server is started."""
        touch = f"touch {self.home}/started"
        run = self.signalled_while_the_emulator_starts("TERM", "--pair", touch, touch)
        self.ends_by(run, signal.SIGTERM)

    def test_wrong_words(self):
        for words, why in ((["--pair", "true", "true", "--", "ls"], "--pair names both programs; leave out ls"),
                           (["--pair", "true"], "pair")):
            done = self.verbena("run", *words)
            self.assertEqual(done.returncode, 125)
            self.assertRegex(done.stderr, f"^verbena: [^\n]*{why}[^\n]*\n$")
