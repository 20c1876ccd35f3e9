# SPDX-License-Identifier: BSD-2-Clause
"""What `verbena run` keeps of a run: --artifacts and --capture."""

import json
import os
import pathlib
import shlex
import signal
import stat
import subprocess
import time

import json_schema
from run_case import LIMIT, RunCase

PCAPNG = b"\x0a\x0d\x0d\x0a"
FILES = ["capture.pcapng", "events.jsonl", "explain.log", "run.json", "status.json"]
LINE = "verbena: prog[12]: ibv_reg_mr: refused"


class Kept(RunCase):
    def setUp(self):
        super().setUp()
        self.kept = self.home + "/kept/here"

    def run_json(self, *further):
        self.assertEqual(sorted(os.listdir(self.kept)), sorted([*FILES, *further]))
        run = json.loads(pathlib.Path(self.kept, "run.json").read_text())
        self.assertEqual(json_schema.wrong(run, json_schema.load("run")), [])
        return run

    def events(self):
        lines = pathlib.Path(self.kept, "events.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def test_a_run_that_fails(self):
        program = f"echo other >&2; printf '{LINE}\\nend' >&2; exit 3"
        done = self.private("--artifacts", self.kept, "--loss", "1%", "--", "sh", "-c", program)
        self.assertEqual(done.returncode, 3)
        run = self.run_json()
        seed = run["seed"]
        self.assertLess(seed, 1 << 32)  # a TOML file can hold it
        repeat = run["repeat"]
        self.assertEqual(done.stderr, f"other\n{LINE}\nendverbena: the same again: {repeat}\n")
        self.assertEqual(shlex.split(repeat), [self.exe, "run", "--seed", str(seed), "--private", "--artifacts", self.kept,
                                               "--loss", "1%", "--", "sh", "-c", program])
        self.assertEqual(run["command"], shlex.split(repeat)[1:2] + shlex.split(repeat)[4:])
        self.assertEqual((run["exit_code"], run["signal"], run["timed_out"]), (3, None, False))
        self.assertIn(run["version"], self.verbena("version").stdout)
        self.assertGreater(run["duration_seconds"], 0)
        self.assertEqual(pathlib.Path(self.kept, "explain.log").read_text(), LINE + "\n")
        status = json.loads(pathlib.Path(self.kept, "status.json").read_text())
        self.assertEqual(status["devices"][0]["faults"][0]["seed"], seed)
        self.assertEqual(pathlib.Path(self.kept, "capture.pcapng").read_bytes()[:4], PCAPNG)
        self.assertEqual([(event["kind"], event["seed"]) for event in self.events()], [("fault_set", seed)])
        self.assertLess(sum(os.path.getsize(f"{self.kept}/{name}") for name in FILES), 1 << 20)
        again = self.verbena(*shlex.split(repeat)[1:])
        self.assertEqual((again.returncode, self.run_json()["seed"]), (3, seed))
        self.nothing_is_left()

    def test_the_environment_is_repeated(self):
        words = ["sh", "-c", 'echo "$VERBENA_LINK $VERBENA_FAIL $VERBENA_ENGINES $VERBENA_ROLE"; exit 3']
        ours = {"VERBENA_LINK": "udp", "VERBENA_FAIL": "ibv_reg_mr=EIO", "VERBENA_ENGINES": "2", "VERBENA_ROLE": "one"}
        done = self.private("--artifacts", self.kept, "--", *words, env=self.env | ours)
        repeat = self.run_json()["repeat"]
        self.assertEqual((done.returncode, done.stdout), (3, "udp ibv_reg_mr=EIO 2 one\n"))
        again = subprocess.run(["sh", "-c", repeat], env=self.env, text=True,
                               capture_output=True, check=False)
        self.assertEqual((again.returncode, again.stdout), (3, done.stdout), again.stderr)

    def test_however_verbena_was_called(self):
        """The command that repeats the run is found wherever the shell is."""
        there = pathlib.Path(self.home, "it's here")
        there.mkdir()
        there.joinpath("bin").symlink_to(self.home + "/bin")
        in_path = self.env | {"PATH": f"{self.home}/bin:{self.env['PATH']}"}
        for called, env in (("bin/verbena", self.env), ("./bin/verbena", self.env), (self.exe, self.env), ("verbena", in_path)):
            done = subprocess.run([called, "run", "--private", "--artifacts", self.kept, "--", "sh", "-c", "exit 3"], env=env,
                                  cwd=there, text=True, capture_output=True, timeout=LIMIT, check=False)
            repeat = self.run_json()["repeat"]
            self.assertEqual((done.returncode, done.stderr), (3, f"verbena: the same again: {repeat}\n"))
            again = subprocess.run(["sh", "-c", repeat], env=env, cwd="/", capture_output=True, timeout=LIMIT, check=False)
            self.assertEqual(again.returncode, 3, (called, repeat, again.stderr))
        self.assertTrue(repeat.startswith("verbena run "), repeat)
        self.nothing_is_left()

    def test_words_that_are_not_text(self):
        """JSON cannot hold such a word; the command that repeats the run still has its bytes, in every shell."""
        word = b"a'\xff\\ \n%s\"$1"
        command = ["sh", "-c", 'printf %s "$1" >"$2"; exit 3', "sh", word, self.home + "/said"]
        done = self.private("--artifacts", self.kept, "--", *command)
        self.assertEqual(done.returncode, 3)
        said = pathlib.Path(self.home, "said")
        self.assertEqual(said.read_bytes(), word)
        repeat = self.run_json()["repeat"]
        self.assertTrue(done.stderr.endswith(f"the same again: {repeat}\n"), done.stderr)
        for shell in ("sh", "bash"):
            said.unlink()
            again = subprocess.run([shell, "-c", repeat], env=self.env, check=False)
            self.assertEqual((again.returncode, said.read_bytes()), (3, word))

    def test_a_capture_that_is_killed(self):
        done = self.private("--artifacts", self.kept, "--", "sh", "-c", "pkill -9 -P $PPID -x exe")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, f"verbena: {self.kept}/capture.pcapng is not whole: its capture has ended early\n")
        self.run_json()

    def test_a_full_disk(self):
        """Each file that is not whole is named, and the run's exit code stays the program's."""
        script = 'mount -t tmpfs -o size=8k none "$1" && head -c 1M /dev/zero >"$1/all" 2>/dev/null; shift; exec "$@"'
        namespace = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
        if subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this container may not make a mount namespace")
        os.makedirs(self.kept)
        program = ["sh", "-c", f"echo '{LINE}' >&2; exit 3"]
        done = subprocess.run([*namespace, "sh", "-c", script, "sh", self.kept, self.exe, "run", "--private", "--loss", "1%",
                               "--artifacts", self.kept, "--", *program], env=self.env, text=True, capture_output=True,
                              timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        for name in ("status.json", "events.jsonl", "explain.log"):
            self.assertIn(f"verbena: {self.kept}/{name} is not whole", done.stderr)
        self.assertIn(f"verbena: cannot write {self.kept}/run.json: No space left on device\n", done.stderr)
        self.nothing_is_left()

    def test_whatever_its_end_was(self):
        for program, words, code, name, late in (("kill -SEGV $$", [], 139, "SIGSEGV", False), ("kill -9 $$", [], 137, "SIGKILL", False),
                                                 ("sleep 1000", ["--timeout", "0.3"], 124, None, True), ("true", [], 0, None, False),
                                                 ("exit 124", ["--timeout", "50"], 124, None, False)):
            done = self.private("--artifacts", self.kept, *words, "--", "sh", "-c", program)
            self.assertEqual(done.returncode, code, done.stderr)
            run = self.run_json(*["status-at-timeout.json"] * late)
            self.assertEqual((run["exit_code"], run["signal"], run["timed_out"], run["seed"]), (code, name, late, None))
            json.loads(pathlib.Path(self.kept, "status.json").read_text())
            self.assertEqual(f"the same again: {self.exe} run --private" in done.stderr, code != 0)
        self.nothing_is_left()

    def failed(self, words, code, error, names):
        """Runs after another run. The files tell of this one, and of what it failed at."""
        self.assertEqual(self.private("--artifacts", self.kept, "--", "true").returncode, 0)
        done = self.private("--artifacts", self.kept, *words)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(sorted(os.listdir(self.kept)), names)
        run = json.loads(pathlib.Path(self.kept, "run.json").read_text())
        self.assertEqual(json_schema.wrong(run, json_schema.load("run")), [])
        self.assertEqual((run["exit_code"], run["command"][-1]), (code, words[-1]))
        self.assertLess(run["duration_seconds"], LIMIT)
        self.assertRegex(run["error"], error)
        self.assertEqual(done.stderr.splitlines()[0], "verbena: " + run["error"])
        self.assertEqual(pathlib.Path(self.kept, "explain.log").read_text(), f"verbena: {run['error']}\n")
        self.nothing_is_left()

    def test_a_run_that_does_not_start_its_program(self):
        none = ["explain.log", "run.json"]
        self.failed(["--", "no-such-program"], 127, "^cannot run no-such-program: No such file or directory$", FILES)
        self.failed(["--", "/etc"], 126, "^cannot run /etc: Permission denied$", FILES)
        self.failed(["--capture", self.home + "/missing/x", "--", "true"], 125, "missing/x: No such file or directory$", none)
        # The first run needs an emulator, and the second gets none.
        os.rename(self.home + "/bin/verbenad", self.home + "/bin/verbenad-itself")
        daemon = self.script("bin/verbenad", '#!/bin/sh\n[ -e "$0-ran" ] && exit 1\ntouch "$0-ran"\nexec "$0-itself" "$@"\n')
        os.chmod(daemon, 0o755)
        self.failed(["--", "echo"], 125, "^the emulator ended while it started", none)

    def test_a_rule_that_never_fired_is_named(self):
        """In run.json always, among the explanations if that is a failure."""
        rule = "drop opcode=WRITE nth=1"
        line = f"verbena: the rule '{rule}' never fired, of 0 that it names\n"
        for words, program, code, explained in (((), "true", 0, ""), (("--require-fired",), "true", 3, line),
                                                (("--require-fired",), "exit 7", 7, line)):
            done = self.private("--artifacts", self.kept, "--inject", rule, *words, "--", "sh", "-c", program)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(self.run_json()["never_fired"], [rule])
            self.assertEqual(pathlib.Path(self.kept, "explain.log").read_text(), explained)
        run = self.start("--private", "--artifacts", self.kept, "--require-fired", "--inject", rule, "--",
                         "sh", "-c", "echo ready; read word")
        run.stdout.readline()
        for daemon in self.daemons():
            os.kill(daemon, signal.SIGKILL)
        self.assertEqual(self.finish(run, "on\n").returncode, 3)
        self.assertIsNone(self.run_json()["never_fired"])
        self.assertRegex(pathlib.Path(self.kept, "explain.log").read_text(), "^verbena: nobody can say which rules fired: ")
        self.private("--artifacts", self.kept, "--", "true")
        self.assertEqual(self.run_json()["never_fired"], [])

    def test_a_wrong_command_line_leaves_the_files_of_the_run_before(self):
        self.assertEqual(self.private("--artifacts", self.kept, "--", "true").returncode, 0)
        run = self.run_json()
        for words in (["--inject", "no rule"], ["--timeout", "1", "--inject", "port-down after=2s"], ["--fail", "nothing"]):
            done = self.private("--artifacts", self.kept, *words, "--", "true")
            self.assertEqual((done.returncode, self.run_json()), (125, run), done.stderr)

    def test_an_emulator_that_does_not_end(self):
        """The exit code is 125 then, and so says run.json. The run lets an emulator go on that was stopped, and here it is
        stopped again and again; it may be quick enough to end once."""
        for _ in range(10):
            run = self.start("--private", "--artifacts", self.kept, "--", "sh", "-c", "echo ready; read word")
            run.stdout.readline()
            [daemon] = self.daemons()
            run.stdin.write("on\n")
            run.stdin.flush()
            while run.poll() is None and self.lives(daemon):
                os.kill(daemon, signal.SIGSTOP)
            done = self.finish(run)
            said = self.run_json()
            self.assertEqual(said["exit_code"], done.returncode, done.stderr)
            if done.returncode == 125:
                break
        os.kill(daemon, signal.SIGKILL)
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertRegex(said["error"], rf"^the emulator \(pid {daemon}\) does not end: ")
        self.assertIn(f"verbena: {said['error']}\n", done.stderr)

    def test_a_killed_emulator(self):
        run = self.start("--private", "--artifacts", self.kept, "--", "sh", "-c", "echo ready; read word; exit 4")
        run.stdout.readline()
        for daemon in self.daemons():
            os.kill(daemon, signal.SIGKILL)
        self.assertEqual(self.finish(run, "on\n").returncode, 4)
        self.assertEqual(self.run_json()["exit_code"], 4)
        for name, command in (("status.json", "status"), ("events.jsonl", "events")):
            failure = json.loads(pathlib.Path(self.kept, name).read_text())
            self.assertEqual(json_schema.wrong(failure, json_schema.load("commands")), [])
            self.assertEqual((failure["command"], failure["exit_code"]), (command, 1))
        self.nothing_is_left()

    def test_a_killed_emulator_is_said_to_have_ended_once(self):
        run = self.start("--private", "--timeout", "2", "--artifacts", self.kept, "--", "sh", "-c", "echo ready; exec sleep 1000")
        run.stdout.readline()
        [daemon] = self.daemons()
        os.kill(daemon, signal.SIGKILL)
        done = self.finish(run)
        self.assertEqual(done.returncode, 124)
        ended = f"the emulator (pid {daemon}) has ended"
        said = done.stderr.splitlines()
        self.assertEqual(said[0], f"verbena: {ended}: nobody can say what the programs waited for")
        self.assertRegex(said[1], r"^verbena: the programs when the time was up: sleep\[\d+\]$")
        self.assertEqual(said[2:4], ["verbena: it took longer than 2s and was ended",
                                     f"verbena: neither status nor events are kept: {ended}"])
        self.assertNotIn("start one with", done.stderr)
        self.run_json("status-at-timeout.json")
        self.nothing_is_left()

    def test_a_stopped_emulator_holds_nothing_up(self):
        """And what it knows is kept after all: once the programs have ended it goes on, since it shall end as well."""
        run = self.start("--private", "--timeout", "2", "--artifacts", self.kept, "--", "sh", "-c", "echo ready; exec sleep 1000")
        run.stdout.readline()
        [daemon] = self.daemons()
        os.kill(daemon, signal.SIGSTOP)
        begun = time.monotonic()
        done = self.finish(run)
        self.assertLess(time.monotonic() - begun, 9)
        self.assertEqual(done.returncode, 124)
        said = done.stderr.splitlines()
        self.assertEqual(said[0], f"verbena: the emulator (pid {daemon}) is stopped: nobody can say what the programs waited for")
        self.assertEqual(said[2], "verbena: it took longer than 2s and was ended")
        self.assertTrue(self.run_json("status-at-timeout.json")["timed_out"])
        self.assertEqual(json.loads(pathlib.Path(self.kept, "status.json").read_text())["pid"], daemon)
        self.nothing_is_left()

    def test_whoever_may_read_one_may_read_all(self):
        self.assertEqual(self.private("--artifacts", self.kept, "--", "true").returncode, 0)
        modes = {name: stat.S_IMODE(os.stat(f"{self.kept}/{name}").st_mode) for name in FILES}
        self.assertEqual(len(set(modes.values())), 1, modes)

    def test_explanations_without_end(self):
        """All explanations are shown. The kept file stays small enough to be uploaded."""
        done = self.private("--artifacts", self.kept, "--", "sh", "-c", f"yes '{LINE}' | head -n 120000 >&2")
        self.assertEqual((done.returncode, done.stderr), (0, (LINE + "\n") * 120_000))
        kept = pathlib.Path(self.kept, "explain.log").read_text()
        self.assertGreater(4 << 20, len(kept) - 100)
        self.assertTrue(kept.startswith((LINE + "\n") * 80_000))
        self.assertTrue(kept.endswith(LINE + "\nverbena: further explanations are left out\n"))

    def test_a_pair(self):
        done = self.private("--artifacts", self.kept, "--pair", f"echo '{LINE}' >&2; exit 5", "true")
        self.assertEqual(done.returncode, 5)
        self.assertEqual(self.run_json()["exit_code"], 5)
        self.assertEqual(pathlib.Path(self.kept, "explain.log").read_text(), LINE + "\n")

    def test_a_capture(self):
        file = self.home + "/file.pcapng"
        for words in (["--private"], ["--fabric", self.fabric]):
            done = self.verbena("run", *words, "--capture", file, "--", "sh", "-c", "exit 6")
            self.assertEqual(done.returncode, 6)
            self.assertRegex(done.stderr, r"^\d+ packets captured, \d+ left out\n$")
            self.assertEqual(pathlib.Path(file).read_bytes()[:4], PCAPNG)
            os.remove(file)
        self.assertEqual(self.private_dirs(), [])

    def test_a_capture_that_ends_at_once_says_why(self):
        done = self.private("--capture", "/dev/full", "--", "true")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "0 packets captured, an unknown number left out\n"
                         "verbena: cannot write /dev/full: No space left on device\n")

    def named_pipe(self):
        path = self.home + "/pipe"
        os.mkfifo(path)
        return path, f"verbena: nobody reads {path} yet; the capture begins when somebody does\n"

    def captures_into(self, path):
        """Returns the numbers of the processes that capture into this file."""
        words = f"verbena\0capture\0{path}\0"
        found = []
        for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if file.read_text(errors="replace").endswith(words):
                    found.append(int(file.parent.name))
            except OSError:
                pass  # it has ended
        return found

    def test_a_capture_into_a_named_pipe(self):
        """The capture waits for the reader, and ends with the run if there is none."""
        path, waits = self.named_pipe()
        capture = subprocess.Popen([self.exe, "run", "--private", "--capture", path, "--", "true"], env=self.env, text=True,
                                   stderr=subprocess.PIPE)
        self.until(lambda: self.captures_into(path), "no capture begins", LIMIT)
        self.assertIsNone(capture.poll())
        self.assertEqual(pathlib.Path(path).read_bytes()[:4], PCAPNG)
        self.assertEqual((capture.wait(timeout=60), capture.stderr.read()), (0, "0 packets captured, 0 left out\n"))
        capture.stderr.close()
        done = self.private("--capture", path, "--", "true")
        self.assertEqual((done.returncode, done.stderr), (125, waits))
        self.assertEqual(self.captures_into(path), [])
        self.nothing_is_left()

    def test_a_capture_that_nobody_reads_can_be_ended(self):
        path, waits = self.named_pipe()
        self.assertEqual(self.verbena("up", "--fabric", self.fabric).returncode, 0)
        for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            for words in (["capture", path], ["run", "--private", "--capture", path, "--", "true"]):
                with self.subTest(words=words, signal_number=signal_number):
                    waiting = subprocess.Popen([self.exe, *words], env=self.env, text=True, stderr=subprocess.PIPE)
                    if words[0] == "capture":
                        self.assertEqual(waiting.stderr.readline(), waits)
                    else:
                        self.until(lambda: self.captures_into(path), "no capture begins", LIMIT)
                    waiting.send_signal(signal_number)
                    self.assertNotEqual(waiting.wait(timeout=10), 0)  # long before a run gives up
                    said = waiting.stderr.read()
                    waiting.stderr.close()
                    if words[0] == "capture":
                        self.assertEqual(said, f"verbena: cannot write {path}: Broken pipe\n")
                    self.until(lambda: not self.captures_into(path), "a capture is left", LIMIT)
        self.assertEqual(self.verbena("down").returncode, 0)
        self.nothing_is_left()

    def test_a_capture_beside_the_artifacts(self):
        file = self.home + "/file.pcapng"
        done = self.private("--artifacts", self.kept, "--capture", file, "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(pathlib.Path(file).read_bytes()[:4], PCAPNG)
        self.assertEqual(sorted(os.listdir(self.kept)), FILES[1:])

    def test_two_that_keep_something_at_once(self):
        """An emulator makes one capture at a time. The second run keeps everything but the packets."""
        inner = [self.exe, "run", "--fabric", self.fabric, "--artifacts", self.kept, "--", "sh", "-c", "exit 3"]
        done = self.verbena("run", "--fabric", self.fabric, "--artifacts", self.home + "/outer", "--", *inner)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("verbena: no packets are kept: a capture runs already\n", done.stderr)
        self.assertEqual(sorted(os.listdir(self.kept)), FILES[1:])
        self.assertEqual(sorted(os.listdir(self.home + "/outer")), FILES)

    def test_two_at_once_in_one_directory(self):
        """The second is refused and harms nothing of the first one's, whichever its name of the directory."""
        first = self.start("--private", "--artifacts", self.kept, "--", "sh", "-c", "echo ready; read word; exit 3")
        first.stdout.readline()
        there = sorted(os.listdir(self.kept))
        for name in (self.kept, self.kept + "/../here/"):
            done = self.private("--artifacts", name, "--", "touch", self.home + "/started")
            self.assertEqual((done.returncode, done.stderr),
                             (125, f"verbena: --artifacts {name}: another run that has not ended keeps its files there; name "
                                   "another directory\n"))
        self.assertEqual(sorted(os.listdir(self.kept)), there)
        self.assertFalse(os.path.exists(self.home + "/started"))
        self.assertEqual(self.finish(first, "on\n").returncode, 3)
        self.assertEqual(self.run_json()["exit_code"], 3)
        self.assertEqual(self.private("--artifacts", self.kept, "--", "true").returncode, 0)
        self.nothing_is_left()

    def test_places_that_cannot_be_written(self):
        pathlib.Path(self.home, "file").write_text("mine")
        touch = ["--", "touch", self.home + "/started"]
        for words in (["--artifacts", self.home + "/file/x"], ["--capture", self.home + "/missing/x"], ["--capture", "-"]):
            done = self.private(*words, *touch)
            self.assertEqual(done.returncode, 125)
            self.assertRegex(done.stderr, f"^verbena: [^\n]*{words[1]}[^\n]*\n$")
        self.assertIn("Not a directory", self.private("--artifacts", self.home + "/file/x", *touch).stderr)
        os.makedirs(self.kept + "/run.json/x")
        done = self.private("--artifacts", self.kept, "--", "true")
        self.assertEqual((done.returncode, done.stderr), (0, f"verbena: cannot write {self.kept}/run.json: Is a directory\n"))
        # The program removes the current directory.
        gone = f"cd {self.home}/kept; rm -r {self.home}/kept; exec {self.exe} run --private --capture x.pcapng -- true"
        done = subprocess.run(["sh", "-c", gone], env=self.env, text=True, capture_output=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (125, "verbena: cannot write x.pcapng: No such file or directory\n"))
        done = self.private("--artifacts", "/proc/self/x/y", *touch)
        self.assertEqual(done.stderr, "verbena: --artifacts /proc/self/x/y: No such file or directory\n")
        self.assertFalse(os.path.exists(self.home + "/started"))
        self.nothing_is_left()
