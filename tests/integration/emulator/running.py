# SPDX-License-Identifier: BSD-2-Clause
"""`verbena run`, and the commands that only print something."""

import os
import pathlib
import platform
import shlex
import signal
import subprocess
import sys
import time
from unittest import mock

import control_client as cc
import seccomp
from emulator_case import EmulatorCase


class Running(EmulatorCase):
    def run_in(self, *words, **more):
        return self.verbena("run", "--fabric", self.fabric, *words, **more)

    def test_exit_codes(self):
        self.assertEqual(self.run_in("--", "true").returncode, 0)
        self.assertEqual(self.run_in("--", "sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(self.run_in("sh", "-c", "exit 8").returncode, 8)
        self.assertEqual(self.run_in("--", "sh", "-c", "kill -9 $$").returncode, -signal.SIGKILL)
        self.assertEqual(self.run_in("--", "no-such-program").returncode, 127)
        self.assertEqual(self.run_in("--", "/etc/passwd").returncode, 126)
        self.assertEqual(self.run_in("--", "/").returncode, 126)
        self.assertEqual(self.run_in().returncode, 125)
        self.assertEqual(self.run_in("--no-such-option", "--", "true").returncode, 125)
        self.assertEqual(self.verbena("run", "--fabric", "x", "--", "true").returncode, 125)
        self.assertEqual(self.verbena("no-such-command").returncode, 2)

    def test_what_the_program_sees(self):
        # With ASan in them, the project's programs insist on being first in LD_PRELOAD.
        env = dict(self.env, LD_PRELOAD="libc.so.6", RDMAV_DRIVERS="other",
                   ASAN_OPTIONS="verify_asan_link_order=0")
        done = self.run_in("--", "env", env=env)
        seen = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        self.assertEqual(seen["LD_PRELOAD"], self.home + "/lib/libverbena-preload.so:libc.so.6")
        self.assertEqual(seen["RDMAV_DRIVERS"], self.home + "/lib/libverbena:other")
        self.assertEqual(seen["VERBENA_RUNTIME_DIR"], self.dir)
        self.assertEqual(seen["VERBENA_LOG"], "explain")
        twice = self.run_in("--", self.home + "/bin/verbena", "run", "--", "env")
        self.assertIn(f"LD_PRELOAD={self.home}/lib/libverbena-preload.so\n", twice.stdout)
        self.assertNotIn("VERBENA_LOG", self.run_in("--quiet", "--", "env").stdout)
        with mock.patch.dict(self.env, VERBENA_LOG="explain"):
            self.assertNotIn("VERBENA_LOG", self.run_in("--quiet", "--", "env").stdout)

    def test_options_of_the_program_are_its_own(self):
        self.assertEqual(self.run_in("echo", "--fabric", "-x").stdout, "--fabric -x\n")
        self.assertEqual(self.run_in("--", "echo", "--", "y").stdout, "-- y\n")

    def test_a_program_whose_name_is_like_an_option(self):
        program = pathlib.Path(self.home, "--show")
        program.write_text("#!/bin/sh\necho shown\n")
        program.chmod(0o755)
        env = dict(self.env, PATH=f"{self.home}:{self.env['PATH']}")
        self.assertEqual(self.run_in("--", "--show", env=env).stdout, "shown\n")
        self.assertEqual(self.verbena("run", "--private", "--", "--show", env=env).stdout, "shown\n")
        self.assertEqual(self.run_in("--", "-x").returncode, 127)

    def test_it_ends_after_its_last_user(self):
        program = subprocess.Popen([self.home + "/bin/verbena", "run", "--fabric", self.fabric,
                                    "--", "cat"], env=self.env, stdin=subprocess.PIPE)
        self.until(self.daemon_pid, "no daemon")
        self.assertEqual(self.run_in("--", "true").returncode, 0)
        daemon = self.daemon_pid()
        time.sleep(2)  # longer than the emulator lingers
        self.assertEqual(self.daemon_pid(), daemon, "cat is still there")
        program.communicate()
        self.wait_for_end(daemon)
        self.assertFalse(os.path.exists(self.dir + "/control.sock"))

    def test_system_calls_have_the_numbers_of_this_machine(self):
        """Of x86-64 and, from the header for all later architectures, of aarch64: pidfd_open is the same in both."""
        later = ("asm-generic/unistd.h", "__NR_")
        self.assertEqual([seccomp.number_of("pidfd_open", *header) for header in ((), later)], [434, 434])
        self.assertEqual(seccomp.number_of("socket", *later), 198)
        if platform.machine() == "x86_64":
            self.assertEqual(seccomp.number_of("socket"), 41)

    def test_where_no_process_may_be_watched(self):
        """pidfd_open fails, as in containers of engines that are older than the call."""
        filtered = {"preexec_fn": seccomp.forbid("pidfd_open")}
        self.assertEqual(self.run_in("--", "sh", "-c", "exit 7", **filtered).returncode, 7)
        self.until(lambda: not self.daemon_pid(), "it does not end after its last user")
        program = subprocess.Popen([self.home + "/bin/verbena", "run", "--fabric", self.fabric, "--", "cat"],
                                   env=self.env, stdin=subprocess.PIPE, **filtered)
        self.until(self.daemon_pid, "no daemon")
        daemon = self.daemon_pid()
        time.sleep(2)  # longer than the emulator lingers
        self.assertEqual(self.daemon_pid(), daemon, "cat is still there")
        program.communicate()
        self.wait_for_end(daemon)

    def test_a_failure_that_cannot_be_had(self):
        for wrong, why in (("ibv_register_mr=ENOMEM", "no function of that name"),
                           ("rdma_getaddrinfo=ENOMEM", "no function of that name"),
                           ("ibv_reg_mr=ENOWAY", "the error is none of EACCES"),
                           ("ibv_reg_mr=ENOMEM@0", "the number of a call")):
            done = self.run_in("--fail", wrong, "--", "touch", self.home + "/started")
            self.assertEqual(done.returncode, 125, wrong)
            self.assertRegex(done.stderr, f"^verbena: --fail {wrong}: [^\n]*{why}[^\n]*\n$")
            self.assertIsNone(self.daemon_pid())
        self.assertFalse(os.path.exists(self.home + "/started"))

    def test_up_makes_it_stay(self):
        self.run_in("--", "true")
        self.up()
        daemon = self.daemon_pid()
        time.sleep(2)
        self.assertEqual(self.daemon_pid(), daemon)

    def test_the_program_has_no_child_that_it_did_not_start(self):
        done = self.run_in("--", sys.executable, "-c",
                           "import os\ntry:\n os.wait()\nexcept ChildProcessError:\n print('none')")
        self.assertEqual(done.stdout, "none\n")

    def test_no_preload_library(self):
        os.remove(self.home + "/lib/libverbena-preload.so")
        done = self.run_in("--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("libverbena-preload.so", done.stderr)
        self.assertIn("verbena doctor", done.stderr)

    def test_many_runs_at_once(self):
        words = [self.home + "/bin/verbena", "run", "--fabric", self.fabric, "--", "true"]
        for one in [subprocess.Popen(words, env=self.env) for _ in range(20)]:
            self.assertEqual(one.wait(60), 0)


class Words(EmulatorCase):
    def test_env(self):
        done = self.verbena("env")
        self.assertEqual(done.returncode, 0)
        self.assertIn("no emulator is running yet", done.stderr)
        seen = subprocess.run(["sh", "-c", 'eval "$1"; printenv RDMAV_DRIVERS', "sh", done.stdout],
                              env={"PATH": os.environ["PATH"]}, text=True, capture_output=True)
        self.assertEqual(seen.stdout, self.home + "/lib/libverbena\n")
        self.assertIn("set -gx LD_PRELOAD", self.verbena("env", "--shell", "fish").stdout)

    def test_completion(self):
        script = self.verbena("completion", "bash").stdout
        asked = subprocess.run(
            ["bash", "-c", script + "\nCOMP_WORDS=(verbena st); COMP_CWORD=1; _verbena; "
             'echo "${COMPREPLY[@]}"'], text=True, capture_output=True)
        self.assertEqual(asked.stdout, "status\n", asked.stderr)
        self.assertIn("compdef verbena", self.verbena("completion", "zsh").stdout)
        self.assertEqual(self.verbena("completion", "tcsh").returncode, 2)

    def test_completion_of_fish(self):
        """fish takes the script, runs nothing of it, and offers what begins like the word."""
        script = self.verbena("completion", "fish").stdout
        ask = subprocess.run(["fish", "--no-config", "-c", 'source; complete -C"verbena e"; complete -C"verbena capture --b"'],
                             input=script, env={**self.env, "HOME": self.home}, text=True, capture_output=True)
        self.assertEqual(ask.stderr, "")
        self.assertEqual(ask.stdout.splitlines(), [
            'env\tPrint the variables to export for a shell: eval "$(verbena env)"',
            "event\tRaise an asynchronous event in the programs that have a device open.",
            "events\tShow what has happened: programs, connections, errors, time-outs, faults, ports.",
            "--both-ends\tRecord a packet from one program to another twice: as sent and as received"])

    def test_completion_of_zsh(self):
        script = pathlib.Path(self.home, "_verbena")
        script.write_text(self.verbena("completion", "zsh").stdout)
        done = subprocess.run(["zsh", "-f", "-c", f"autoload -Uz compinit && compinit -D && source {script} && echo $_comps[verbena]"],
                              env={**self.env, "HOME": self.home}, text=True, capture_output=True)
        self.assertEqual((done.stdout, done.stderr), ("_verbena\n", ""))

    def test_doctor_finds_what_is_missing(self):
        os.remove(self.home + "/lib/libverbena-preload.so")
        done = self.verbena("doctor")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"FAULT  {self.home}/lib/libverbena-preload.so is missing", done.stdout)
        self.assertIn("FAULT", done.stdout)

    def test_help_and_version(self):
        self.assertEqual(self.verbena("--help").returncode, 0)
        self.assertIn("verbena run", self.verbena("--help").stdout)
        self.assertRegex(self.verbena("version").stdout, r"^verbena \d+\.\d+\.\d+\n$")
        for command in ("run", "up", "down", "status", "env", "doctor", "port", "fault", "capture"):
            self.assertEqual(self.verbena(command, "--help").returncode, 0, command)

    def test_what_help_says_of_run_and_up(self):
        done = self.verbena("run", "--help").stdout
        self.assertIn("\nUsage: verbena run [OPTIONS] [--] PROGRAM [ARGS...]\n", done)
        before, _, private = done.partition("\nOnly with --private:\n")
        for option in ("loss", "duplicate", "reorder", "corrupt", "delay", "jitter", "rate", "seed", "inject", "scenario", "data",
                       "cm", "require-fired"):
            self.assertIn(f"\n  --{option} ", "\n" + private)
        self.assertIn("\n  --timeout ", before)
        for said in (done, self.verbena("--help").stdout):
            self.assertIn("3: a rule never fired (--require-fired)", said)
        self.assertRegex(self.verbena("--help").stdout, r"\n  help  +Print this help, or that of a command")
        self.assertRegex(self.verbena("up", "--help").stdout, r"--foreground +.*\(not with --private or --json\)")

    def test_help_for_newcomers(self):
        alone = self.verbena()
        self.assertEqual((alone.returncode, alone.stdout), (2, ""))
        self.assertEqual(alone.stderr, self.verbena("--help").stdout)
        self.assertEqual(self.verbena("help").stdout, alone.stderr)
        self.assertEqual(self.verbena("help", "fault").stdout, self.verbena("fault", "--help").stdout)
        for words in (["statsu"], ["help", "statsu"]):
            done = self.verbena(*words)
            self.assertEqual((done.returncode, done.stderr),
                             (2, 'verbena: there is no command "statsu"; did you mean status?\n'))
        self.assertEqual(self.verbena("frobnicate").stderr,
                         'verbena: there is no command "frobnicate"; see verbena --help\n')
        for words in (["--json"], ["--json", "status"], ["--nosuch"]):
            done = self.verbena(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertEqual(done.stderr, f"verbena: {words[0]} is no command, and options stand behind one; "
                                          "see verbena --help\n")
        for words in (["status", "extra"], ["up", "--fabrik", "x"], ["capture"], ["fault", "--loss"]):
            done = self.verbena(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertRegex(done.stderr, "^verbena: [^\n]*; see verbena --help\n$")

    def test_an_empty_word_is_no_value(self):
        """An empty word, as of a variable that is not set, is not taken as if the option were missing."""
        self.up()
        for command, options in (("fault", ["--qp", "--device", "--loss", "--seed", "--scenario"]),
                                 ("run", ["--timeout", "--artifacts", "--capture", "--fail", "--config", "--loss", "--seed"]),
                                 ("up", ["--fabric", "--log-level"]), ("events", ["--after"]), ("capture", ["--device"])):
            for option in options:
                done = self.verbena(command, option, "")
                self.assertEqual((done.returncode, done.stderr), (125 if command == "run" else 2,
                                 f"verbena: {option}: an empty word; see verbena --help\n"))
        self.assertEqual(self.status()["devices"][0]["faults"], [])
        self.assertEqual(self.verbena("run", "--fabric", self.fabric, "--", "test", "-z", "").returncode, 0)

    def test_output_that_cannot_be_written(self):
        self.up()
        for words in (["status"], ["status", "--json"], ["env"], ["fault", "--loss", "1%"], ["version"], ["--help"],
                      ["completion", "bash"]):
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([self.home + "/bin/verbena", *words], env=self.env, text=True, stdout=full,
                                      stderr=subprocess.PIPE, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stderr),
                             (1, "verbena: cannot write the output: No space left on device\n"), words)

    def test_standard_streams_that_are_closed(self):
        """Files that are opened meanwhile do not take the places of closed streams, and the program finds the streams
        closed."""
        open_ones = 'for i in 0 1 2; do test -e /proc/$$/fd/$i && open="$open $i"; done; echo $open > $1'
        for closed in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)):
            shut = " ".join(f"{fd}>&-" for fd in closed)
            for words in (["--fabric", self.fabric], ["--private"], ["--private", "--artifacts", self.home + "/kept"]):
                quoted = shlex.join([self.home + "/bin/verbena", "run", *words, "--", "sh", "-c", open_ones, "sh", self.home + "/open"])
                done = subprocess.run(["sh", "-c", f"{quoted} {shut}"], env=self.env, timeout=60, check=False)
                self.assertEqual(done.returncode, 0, (closed, words))
                if "--artifacts" not in words:  # with it the error output is a pipe
                    self.assertEqual(pathlib.Path(self.home, "open").read_text().split(),
                                     [str(fd) for fd in (0, 1, 2) if fd not in closed], words)
                self.verbena("down")
            self.up()
            done = subprocess.run(["sh", "-c", f"{self.home}/bin/verbena status {shut}"], env=self.env, timeout=60, check=False)
            self.assertEqual(done.returncode, 1 if 1 in closed else 0, closed)
            self.verbena("down")

    def test_who_reads_no_captures_holds_nobody_up(self):
        """The messages about so many contexts do not fit into a socket. Later contexts are told when there is room."""
        self.up()
        with cc.Client(self.dir, cc.KIND_COMMAND) as command:
            command.call(cc.CAPTURE, cc.text("") + b"\0")
            contexts = [cc.Client(self.dir).open_device() for _ in range(400)]
            told = [context for context in contexts if len(context.fds) == 3]
            self.assertLess(len(told), len(contexts))
            for _ in range(len(contexts) + 1):  # one more for the emulator itself
                command.next_unasked(cc.CAPTURE_SOURCE)
                os.close(command.fds.pop())
            for context in contexts:
                if len(context.fds) == 2:
                    context.next_unasked(cc.SET_CAPTURE)
                self.assertEqual(len(context.fds), 3)
                context.close()

    def test_capture_makes_a_file(self):
        self.up()
        with cc.Client(self.dir).open_device() as client:
            path = self.home + "/x.pcapng"
            program = subprocess.Popen([self.home + "/bin/verbena", "capture", path], env=self.env,
                                       stderr=subprocess.PIPE, text=True)
            _, _, order = client.next_unasked(cc.SET_CAPTURE)
            self.assertEqual(order[0], 1)
            self.assertEqual(len(client.fds), 3)
            self.assertIn("Ctrl-C", program.stderr.readline())
            second = self.verbena("capture", path)
            self.assertEqual((second.returncode, second.stderr), (1, "verbena: a capture runs already\n"))
            self.assertGreater(os.path.getsize(path), 0, "it left the file alone")
            self.assertEqual(self.verbena("capture", self.home + "/y.pcapng").returncode, 1)
            self.assertFalse(os.path.exists(self.home + "/y.pcapng"))
            with cc.Client(self.dir).open_device() as late:
                self.assertEqual(len(late.fds), 3, "its ring comes with the device")
            program.send_signal(signal.SIGINT)
            program.communicate(timeout=30)
            self.assertEqual(program.returncode, 0)
            _, _, order = client.next_unasked(cc.SET_CAPTURE)
            self.assertEqual(order[0], 0)
            with open(path, "rb") as file:
                self.assertEqual(file.read(4), b"\x0a\x0d\x0d\x0a")
