# SPDX-License-Identifier: BSD-2-Clause
"""Signals, terminals and time limits of `verbena run` as a parent."""

import os
import pathlib
import platform
import pty
import signal
import subprocess
import sys
import time

from run_case import LIMIT, RunCase

# Prints the signals that it gets, one after the other.
LISTENER = """
import signal, sys
ALL = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2]
signal.pthread_sigmask(signal.SIG_BLOCK, ALL)
print("ready", flush=True)
for _ in range(int(sys.argv[1])):
    print(signal.Signals(signal.sigwait(ALL)).name, flush=True)
sys.exit(5)
"""
# Counts Ctrl-C, and reads lines of the terminal.
READER = """
import os
import signal
seen = []
signal.signal(signal.SIGINT, lambda *_: (seen.append(1), print("interrupted", flush=True)))
print(f"ready {os.getpid()}", flush=True)
while (word := input()) != "end":
    print("read " + word, flush=True)
print(f"{len(seen)} interrupts", flush=True)
"""


class Signals(RunCase):
    def wait_until_stopped(self, pid):
        end = time.monotonic() + LIMIT
        while pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "T":
            self.assertLess(time.monotonic(), end, "it did not stop")
            time.sleep(0.01)

    def test_each_is_handed_on(self):
        names = ["SIGUSR1", "SIGUSR2", "SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"]
        run = self.start("--private", "--", sys.executable, "-c", LISTENER, str(len(names)))
        self.assertEqual(run.stdout.readline(), "ready\n")
        for name in names:
            run.send_signal(signal.Signals[name])
            self.assertEqual(run.stdout.readline(), name + "\n")
        self.assertEqual(self.finish(run).returncode, 5)
        self.nothing_is_left()

    def test_a_program_that_dies_of_one(self):
        run = self.start("--private", "--", "sh", "-c", "echo ready; exec cat")
        run.stdout.readline()
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(LIMIT), 128 + signal.SIGTERM)
        self.nothing_is_left()

    def test_a_caller_that_ignores_children(self):
        """`verbena run` gets the exit code all the same, and the program sees SIGCHLD as its caller left it."""
        program = "import signal, sys; sys.exit(5 if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN else 6)"
        for words, code in ((["--", sys.executable, "-c", program], 5), (["--pair", "exit 4", "true"], 4)):
            run = self.start("--private", *words, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
            self.assertEqual(self.finish(run).returncode, code)
        self.nothing_is_left()

    def test_one_that_comes_while_the_emulator_starts(self):
        run = self.signalled_while_the_emulator_starts("USR1", "--", sys.executable, "-c", "import signal; signal.pause()")
        self.assertEqual(self.finish(run).returncode, 128 + signal.SIGUSR1)
        self.assertEqual(self.private_dirs(), [])

    def test_after_the_program_they_are_for_what_it_left(self):
        run = self.start("--private", "--", "sh", "-c", "sleep 1000 & exit 3")
        self.assertIn("waiting for what it started: sleep", run.stderr.readline())
        run.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(run).returncode, 3)
        self.nothing_is_left()

    def test_an_interrupt_reaches_what_has_left_the_group(self):
        """What a program has left behind in a session of its own, and a first program that is not in the foreground."""
        behind = ["sh", "-c", "setsid -f sleep 1000; sleep 0.1; exit 3"]
        for words, until, code in ((behind, "waiting for what it started: sleep", 3),
                                   (["timeout", "1000", "sh", "-c", "echo waiting; exec sleep 1000"], "waiting", 128 + 2)):
            run, terminal, screen = self.in_a_terminal_of_its_own("--private", "--", *words)
            self.addCleanup(os.close, terminal)
            while until not in screen.readline():
                pass
            os.write(terminal, b"\x03")
            self.assertEqual(self.ended(run), code)
            self.nothing_is_left()

    def test_a_terminal_that_is_hung_up(self):
        """As when a connection of ssh ends: nothing is left."""
        for words in (["--private", "--"], ["--private", "--timeout", "1000", "--"],
                      ["--private", "--artifacts", self.home + "/kept", "--"]):
            run, terminal, screen = self.in_a_terminal_of_its_own(*words, "sh", "-c", "echo $$; exec sleep 1000")
            program = int(screen.readline())
            screen.close()
            os.close(terminal)
            self.assertEqual(self.ended(run), 128 + signal.SIGHUP)
            self.assertFalse(self.lives(program))
            self.nothing_is_left()

    def test_in_a_terminal(self):
        """The program is in the foreground, Ctrl-C reaches it once, and a shell can stop and continue it."""
        reader = self.script("reader.py", READER)
        shell, terminal = pty.fork()
        if shell == 0:
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"], dict(self.env, PS1="", LC_ALL="C"))
        self.addCleanup(os.close, terminal)
        screen = os.fdopen(os.dup(terminal), errors="replace", newline="\n")
        self.addCleanup(screen.close)

        def type_in(text, until):
            os.write(terminal, text.encode())
            while until not in (line := screen.readline()):
                self.assertTrue(line, f"no {until}")
            return line
        ready = type_in(f'"$VERBENA" run --private -- {sys.executable} {reader}\n', "ready")
        type_in("hello\n", "read hello")
        type_in("\x03", "interrupted")
        type_in("\x1a", "Stopped")
        # The shell reports the stop as soon as `verbena` has stopped. A program that still runs would read the next
        # line.
        self.wait_until_stopped(int(ready.split()[-1]))
        type_in("fg\n", "run --private")
        type_in("end\n", "1 interrupts")
        type_in("echo code $?\n", "code 0")
        os.write(terminal, b"exit\n")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(shell, 0)[1]), 0)
        self.nothing_is_left()


class TimeLimits(RunCase):
    def test_too_long(self):
        for words in (["--private"], ["--fabric", self.fabric]):
            run = self.start(*words, "--timeout", "0.5", "--", "sh", "-c", "echo $$; exec sleep 1000")
            program = int(run.stdout.readline())
            done = self.finish(run)
            self.assertEqual((done.returncode, done.stderr), (124, "verbena: none of its programs had a device open when the time was up\n"
                                                             "verbena: it took longer than 500ms and was ended\n"))
            self.assertFalse(self.lives(program))
        self.assertEqual(self.private_dirs(), [])

    def test_in_time(self):
        self.assertEqual(self.private("--timeout", "50", "--", "sh", "-c", "exit 6").returncode, 6)

    def test_whoever_hides_or_does_not_listen(self):
        """Programs in a session of their own, without a parent, deaf to SIGTERM or stopped are all found and ended."""
        deaf = 'trap "" TERM; echo $$ >> $0; while :; do sleep 1; done'
        program = f'''setsid sh -c '{deaf}' "$0" & (setsid setsid sh -c 'echo $$ >> $0; kill -STOP $$' "$0" &) ; {deaf}'''
        run = self.start("--private", "--timeout", "2", "--", "sh", "-c", program, self.home + "/pids")
        done = self.finish(run)
        self.assertEqual(done.returncode, 124, done.stderr)
        pids = pathlib.Path(self.home, "pids").read_text().split()
        self.assertEqual(len(pids), 3)
        self.assertEqual([pid for pid in pids if self.lives(pid)], [])
        self.nothing_is_left()

    def test_a_program_whose_first_thread_has_ended(self):
        """It goes on, though /proc calls it a zombie."""
        exit_thread = {"x86_64": 60, "aarch64": 93}[platform.machine()]  # the number of the system call exit
        program = ("import ctypes, os, threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n"
                   f"print(os.getpid(), flush=True)\nctypes.CDLL(None).syscall({exit_thread}, 0)")
        run = self.start("--private", "--timeout", "4", "--", sys.executable, "-c", program)
        pid = run.stdout.readline().strip()
        self.assertTrue(pid, "the time limit was too short for this machine")
        self.addCleanup(subprocess.run, ["kill", "-9", pid], capture_output=True, check=False)
        began = time.monotonic()
        done = self.finish(run)
        self.assertEqual((done.returncode, done.stderr), (124, "verbena: none of its programs had a device open when the time was up\n"
                                                         "verbena: it took longer than 4s and was ended\n"))
        self.assertLess(time.monotonic() - began, 11)  # a run gives up after ten seconds
        self.assertFalse(os.path.exists("/proc/" + pid))

    def test_no_number_of_seconds(self):
        for wrong in ("0", "-1", "soon", "1s", "nan", "1e9"):
            done = self.private("--timeout", wrong, "--", "true")
            self.assertEqual((done.returncode, done.stderr),
                             (125, f'verbena: --timeout "{wrong}" is no number of seconds, such as 90 or 0.5\n'))
