# SPDX-License-Identifier: BSD-2-Clause
"""Private emulators: `run --private`, `up --private NAME` and the commands that reach them."""

import json
import os
import pathlib
import re
import signal
import stat
import subprocess

from run_case import LIMIT, RunCase

STATUS = 'exec "$VERBENA" status --json'


class Private(RunCase):
    def test_exit_codes(self):
        for words, code in ((["--", "true"], 0), (["--", "sh", "-c", "exit 7"], 7), (["sh", "-c", "exit 8"], 8),
                            (["--", "sh", "-c", "kill -9 $$"], 128 + 9), (["--", "no-such-program"], 127),
                            (["--", "/etc/passwd"], 126), ([], 125), (["--device", "a/b", "--", "true"], 125)):
            done = self.private(*words)
            self.assertEqual(done.returncode, code, (words, done.stderr))
        self.nothing_is_left()

    def test_an_option_that_may_come_several_times_takes_one_word(self):
        """The program needs no -- behind it."""
        for words in (["--device", "a"], ["--roce", "127.0.0.1"], ["--device", "a", "--device", "b"]):
            done = self.private(*words, "sh", "-c", "exit 8")
            self.assertEqual((done.returncode, done.stderr), (8, ""), words)
        done = self.verbena("up", "--private", "x", "--device", "a", "b")
        self.assertEqual(done.returncode, 2)
        self.assertIn("verbena: The following argument was not expected: b", done.stderr)
        self.nothing_is_left()

    def test_streams_are_the_programs(self):
        sent = os.urandom(1 << 20)
        done = subprocess.run([self.exe, "run", "--private", "--", "sh", "-c", "cat; echo to stderr >&2"], input=sent,
                              env=self.env, capture_output=True, timeout=LIMIT, check=True)
        self.assertEqual(done.stdout, sent)
        self.assertEqual(done.stderr, b"to stderr\n")

    def test_two_at_once_share_nothing(self):
        self.up()
        runs = [self.start("--private", "--", "sh", "-c", '"$VERBENA" status --json | tr -d "\\n"; echo; cat; ' + STATUS)
                for _ in range(2)]
        first, second = (json.loads(run.stdout.readline()) for run in runs)
        ordinary = self.status()
        self.assertEqual(len({s["runtime_dir"] for s in (first, second, ordinary)}), 3)
        addresses = [s["devices"][0]["address"] for s in (first, second, ordinary)]
        self.assertEqual(len(set(addresses)), 3)
        self.assertTrue(all(address.startswith("127.") for address in addresses))
        for status in (first, second):
            self.assertEqual(stat.S_IMODE(os.stat(status["runtime_dir"]).st_mode), 0o700)
            self.assertEqual(os.path.dirname(status["runtime_dir"]), self.dir)
        name = os.path.basename(first["runtime_dir"]).removeprefix("private-")
        for words in (["fault", "--loss", "1%", "--seed", "3"], ["port", "verbena0", "down"]):
            done = self.verbena(*words, "--private", name)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        states = [json.loads(self.finish(run, "").stdout) for run in runs]
        seen = [(len(s["devices"][0]["faults"]), s["devices"][0]["ports"][0]["state"]) for s in (*states, self.status())]
        self.assertEqual(seen, [(2, "DOWN"), (0, "ACTIVE"), (0, "ACTIVE")])
        self.assertEqual(self.private_dirs(), [])
        self.assertTrue(self.daemon_pid(), "the ordinary one stays")

    def test_dozens_at_once(self):
        """Each run lives until all were seen, because a run that ends leaves its subnet to the next one."""
        runs = [self.start("--private", "--", "sh", "-c", '"$VERBENA" status --json | tr -d "\\n"; echo; cat')
                for _ in range(24)]
        seen = [json.loads(run.stdout.readline())["devices"][0]["address"] for run in runs]
        self.assertEqual(len(set(seen)), 24)
        for run in runs:
            self.finish(run, "")
        self.assertEqual([run.returncode for run in runs], [0] * 24)
        self.nothing_is_left()

    def test_below_another(self):
        """A private run within a private run has an emulator of its own."""
        inner = f'"$VERBENA" run --private -- sh -c \'{STATUS}\' && {STATUS}'
        done = self.private("--", "sh", "-c", inner.replace(STATUS, STATUS.replace("exec ", "")))
        self.assertEqual(done.returncode, 0, done.stderr)
        decoder = json.JSONDecoder()
        first, end = decoder.raw_decode(done.stdout)
        second = json.loads(done.stdout[end:])
        self.assertEqual({os.path.dirname(s["runtime_dir"]) for s in (first, second)}, {self.dir})
        self.nothing_is_left()

    def test_it_waits_for_what_the_program_has_left(self):
        os.mkfifo(self.home + "/fifo")
        run = self.start("--private", "--", "sh", "-c", 'setsid sh -c "read word < $0" & exit 3', self.home + "/fifo")
        said = run.stderr.readline()
        self.assertRegex(said, r"^verbena: sh has ended; waiting for what it started: sh \(pid \d+\)\n$")
        self.assertIsNone(run.poll())
        self.assertEqual(len(self.private_dirs()), 1)
        pathlib.Path(self.home, "fifo").write_text("on\n")
        self.assertEqual(self.finish(run).returncode, 3)
        self.nothing_is_left()

    def test_what_its_caller_has_left_is_no_business_of_it(self):
        """The run inherits a child that it did not start, as from bash with `> >(tee log)`, and leaves it alone."""
        shell = subprocess.run(["bash", "-c", 'sleep 1000 > /dev/null 2>&1 & echo $!; exec "$VERBENA" run --private --timeout 50 -- true'],
                               env=self.env, text=True, stdout=subprocess.PIPE, timeout=LIMIT, check=False)
        sleeper = int(shell.stdout)
        self.addCleanup(os.kill, sleeper, signal.SIGKILL)
        self.assertEqual(shell.returncode, 0)
        self.assertTrue(self.lives(sleeper))

    def test_as_process_1(self):
        """As process 1 (a container without an init), `verbena run` inherits every orphan, its emulator included."""
        init = ["unshare", *([] if os.geteuid() == 0 else ["-Ur"]), "-pf", "--mount-proc", "--kill-child"]
        kept = self.home + "/kept"
        for words, code in ((["--", "sh", "-c", "exit 5"], 5), (["--", "sh", "-c", "(setsid sleep 1 &) ; exit 6"], 6),
                            (["--artifacts", kept, "--pair", "exec sleep 1000", "exit 7"], 7)):
            done = subprocess.run([*init, self.exe, "run", "--private", *words], env=self.env, text=True, capture_output=True,
                                  timeout=LIMIT, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertNotIn("verbenad", done.stderr)
        self.assertEqual(json.loads(pathlib.Path(kept, "status.json").read_text())["devices"][0]["name"], "verbena0")
        self.nothing_is_left()

    def test_killed_itself_it_kills_nobody(self):
        run = self.start("--private", "--", "sh", "-c", "echo $$; read word; echo $word > $0", self.home + "/said")
        program = int(run.stdout.readline())
        run.kill()
        run.wait(LIMIT)
        self.assertTrue(self.lives(program))
        self.until(lambda: self.daemons() == [], "the emulator has no user any more", LIMIT)
        self.assertEqual(self.private_dirs(), [])
        run.stdin.write("yes\n")
        run.stdin.flush()
        self.assertEqual(self.text_of(self.home + "/said"), "yes")

    def test_a_killed_emulator_leaves_nothing(self):
        run = self.start("--private", "--", "sh", "-c", "echo ready; read word; exit 4")
        run.stdout.readline()
        for daemon in self.daemons():
            os.kill(daemon, signal.SIGKILL)
        self.assertEqual(self.finish(run, "on\n").returncode, 4)
        self.nothing_is_left()

    def test_it_removes_nothing_but_its_own(self):
        done = self.private("--", "sh", "-c", 'echo mine > "$VERBENA_RUNTIME_DIR/kept"')
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        (left,) = self.private_dirs()
        self.assertEqual(os.listdir(left), ["kept"])

    def test_the_default_file_is_not_read(self):
        """The default file would put all private emulators into one subnet."""
        os.mkdir(self.home + "/verbena")
        config = self.script("verbena/config.toml", f'fabric = "{self.fabric}"\ndevices = ["mine"]\n')
        devices = json.loads(self.private("--", "sh", "-c", STATUS).stdout)["devices"]
        self.assertEqual(devices[0]["name"], "verbena0")
        self.assertNotEqual(devices[0]["address"], self.address)
        devices = json.loads(self.private("--config", config, "--", "sh", "-c", STATUS).stdout)["devices"]
        self.assertEqual((devices[0]["name"], devices[0]["address"]), ("mine", self.address))

    def test_faults_from_the_beginning(self):
        words = ("--loss", "1%", "--duplicate", "2%", "--reorder", "3%", "--corrupt", "4%", "--delay", "1ms", "--jitter",
                 "2ms", "--rate", "1MB", "--seed", "7")
        faults = json.loads(self.private(*words, "--data", "--", "sh", "-c", STATUS).stdout)["devices"][0]["faults"]
        self.assertEqual([(f["traffic"], f["loss_ppm"], f["duplicate_ppm"], f["reorder_ppm"], f["corrupt_ppm"], f["delay_ns"],
                           f["jitter_ns"], f["rate_bytes_per_second"], f["seed"]) for f in faults],
                         [("data", 10_000, 20_000, 30_000, 40_000, 1_000_000, 2_000_000, 1_000_000, 7)])
        faults = json.loads(self.private(*words, "--cm", "--", "sh", "-c", STATUS).stdout)["devices"][0]["faults"]
        self.assertEqual([f["traffic"] for f in faults], ["cm"])
        self.assertEqual(self.private(*words, "--", "false").stderr, "")
        status = json.loads(self.private(*words, "--data", "--inject", "drop nth=9", "--", "sh", "-c", STATUS).stdout)
        self.assertEqual([f["traffic"] for f in status["devices"][0]["faults"]], ["data"])
        self.assertEqual([rule["rule"] for rule in status["rules"]], ["drop nth=9"])
        self.assertRegex(self.private("--loss", "1%", "--", "false").stderr,
                         rf"^verbena: the same again: {re.escape(self.exe)} run --seed \d+ --private --loss 1% -- false\n$")

    def test_words_that_do_not_go_together(self):
        touch = ["--", "touch", self.home + "/started"]
        for words, why in ((["--loss", "1%"], "take one of your own with --private"),
                           (["--private", "--loss", "much"], '"much" is not a share'),
                           (["--private", "--data"], "--data and --cm say which packets meet a fault: name one, as --loss 1%"),
                           (["--private=a/b"], '"a/b" is no name of a private emulator'),
                           (["--private", "--fail", "ibv_reg_mr=ENOWAY"], "--fail ibv_reg_mr=ENOWAY")):
            done = self.verbena("run", *words, *touch)
            self.assertEqual(done.returncode, 125, words)
            self.assertRegex(done.stderr, f"^verbena: [^\n]*{why}[^\n]*\n$")
        self.assertFalse(os.path.exists(self.home + "/started"))
        self.assertFalse(os.path.exists(self.dir))
        done = self.private("--seed", "4", *touch)
        self.assertEqual(done.returncode, 125)
        self.assertIn("no fault is set that this seed could be for", done.stderr)
        self.nothing_is_left()


class Left(RunCase):
    """What killed private emulators leave behind, and what removes it."""

    def begun(self):
        """Returns a run, its directory and its emulator."""
        before = set(self.private_dirs())
        run = self.start("--private", "--", "sh", "-c", "echo ready; read word")
        self.assertEqual(run.stdout.readline(), "ready\n")
        (path,) = set(self.private_dirs()) - before
        return run, path, int(pathlib.Path(path, "daemon.lock").read_text())

    def kill(self, pid):
        os.kill(pid, signal.SIGKILL)
        self.wait_for_end(pid, LIMIT)

    def killed(self):
        """Returns the directory of a run that was killed together with its emulator."""
        run, path, daemon = self.begun()
        self.kill(daemon)
        run.kill()
        run.wait(LIMIT)
        self.assertLessEqual({"control.sock", "daemon.lock", "shadow"}, set(os.listdir(path)))
        return path

    def test_the_next_command_removes_it(self):
        for words in (["run", "--private", "--", "true"], ["up", "--private", "next"], ["up", "--fabric", self.fabric], ["down"]):
            paths = [self.killed() for _ in range(2)]
            done = self.verbena(*words)
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)
            self.assertEqual([path for path in paths if os.path.exists(path)], [], words)

    def test_what_somebody_needs_stays(self):
        """Directories stay that belong to a run whose emulator was killed, to an `up` emulator, or to another user."""
        run, path, daemon = self.begun()
        self.kill(daemon)
        self.assertEqual(self.verbena("up", "--private", "stays").returncode, 0)
        needed = [path, self.dir + "/private-stays"]
        if os.geteuid() == 0:
            needed.append(self.dir + "/private-other")
            os.mkdir(needed[-1], 0o700)
            os.chown(needed[-1], 65534, 65534)
        for words in (["run", "--private", "--", "true"], ["up", "--fabric", self.fabric], ["down"]):
            self.assertEqual(self.verbena(*words).returncode, 0, words)
            self.assertEqual(self.private_dirs(), sorted(needed), words)
        self.assertIn("shadow", os.listdir(path))
        self.assertEqual(self.verbena("status", "--private", "stays").returncode, 0)
        self.assertEqual(self.finish(run, "on\n").returncode, 0)
        self.assertFalse(os.path.exists(path))


    def test_what_is_not_ours_stays(self):
        """A directory without an emulator's lock file may be anybody's, however it is called."""
        work = pathlib.Path(self.home, "work")
        for common, runtime in ((pathlib.Path(self.dir), self.dir), (work, f"{work}/private-mine")):
            common.mkdir(0o700)
            kept = [common / "private-empty", common / "private-pictures", common / "private-pictures/shadow"]
            for path in kept:
                path.mkdir(0o700)
            env = {"VERBENA_RUNTIME_DIR": runtime}
            for words in (["run", "--private", "--", "true"], ["up", "--private", "x"], ["down", "--private", "x"],
                          ["up", "--fabric", self.fabric], ["down"]):
                done = self.verbena(*words, env=self.env | env)
                self.assertEqual((done.returncode, done.stderr), (0, ""), words)
                self.assertEqual([path for path in kept if not path.exists()], [], words)

    def test_a_parent_that_is_no_runtime_directory(self):
        """VERBENA_RUNTIME_DIR may have a name like that of a private emulator's directory."""
        work = pathlib.Path(self.home, "work")
        work.mkdir(0o755)
        env = self.env | {"VERBENA_RUNTIME_DIR": f"{work}/private-mine"}
        show = ["sh", "-c", "echo $VERBENA_RUNTIME_DIR"]
        for words in (["run", "--private"], ["run", "--private", "--", self.exe, "run", "--private"]):
            done = self.verbena(*words, "--", *show, env=env)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertRegex(done.stdout, rf"^{work}/private-mine/private-run-\w+\n$")
        self.assertEqual(self.verbena("up", "--fabric", self.fabric, env=env).returncode, 0)
        self.assertIn("end it first: verbena down\n", self.verbena("up", "--device", "x", env=env).stderr)
        self.assertEqual(self.verbena("down", env=env).stdout, "emulator down\n")


class Named(RunCase):
    def test_all_commands_reach_it(self):
        done = self.verbena("up", "--private", "ci-1")
        self.assertEqual(done.returncode, 0, done.stderr)
        home = self.dir + "/private-ci-1"
        self.assertEqual(self.private_dirs(), [home])
        status = self.verbena("status", "--json", "--private", "ci-1")
        self.assertEqual(json.loads(status.stdout)["runtime_dir"], home)
        self.assertIn(f"export VERBENA_RUNTIME_DIR='{home}'\n", self.verbena("env", "--private", "ci-1").stdout)
        for words in (["waits"], ["fault", "--loss", "1%"], ["port", "verbena0", "sm-change"]):
            done = self.verbena(*words, "--private", "ci-1")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        events = self.verbena("events", "--json", "--private", "ci-1").stdout.splitlines()
        self.assertEqual([json.loads(line)["kind"] for line in events], ["emulator_up", "fault_set", "port"])
        done = self.verbena("event", "verbena0", "client-reregister", "--private", "ci-1")
        self.assertIn("no program has verbena0 open", done.stderr)
        capture = subprocess.Popen([self.exe, "capture", "--private", "ci-1", self.home + "/file"], env=self.env, text=True,
                                   stderr=subprocess.PIPE)
        self.assertIn("capturing to", capture.stderr.readline())
        self.assertEqual(self.verbena("down", "--private", "ci-1").stdout, "emulator down\n")
        capture.communicate(timeout=LIMIT)
        self.nothing_is_left()
        self.assertIn("start one with: verbena up --private ci-1", self.verbena("env", "--private", "ci-1").stderr)
        self.assertEqual(self.verbena("down", "--private", "ci-1").stdout, "no emulator is running\n")
        done = self.verbena("status", "--private", "ci-1")
        self.assertEqual((done.returncode, done.stderr),
                         (1, "verbena: no private emulator ci-1 is running; start one with: verbena up --private ci-1\n"))

    def test_a_name_twice(self):
        self.assertEqual(self.verbena("up", "--private", "twice").returncode, 0)
        daemon = self.daemons()
        for words, code in ((["up", "--private", "twice"], 2), (["run", "--private=twice", "--", "true"], 125)):
            done = self.verbena(*words)
            self.assertEqual(done.returncode, code)
            self.assertRegex(done.stderr, f"^verbena: a private emulator twice is running already \\(pid {daemon[0]}\\); choose "
                                          "another name, or end it first: verbena down --private twice\n$")
        self.assertEqual(self.daemons(), daemon)

    def test_one_name_at_once(self):
        """One emulator gets the name. The other commands are refused."""
        words = [self.exe, "up", "--private", "race"]
        ups = [subprocess.Popen(words, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(8)]
        self.assertEqual(sorted(up.wait(LIMIT) for up in ups), [0] + [2] * 7)
        self.assertEqual(len(self.daemons()), 1)

    def test_how_to_end_it_from_its_own_shell(self):
        """Plain `verbena down` could be typed in another shell, where it ends another emulator."""
        self.assertEqual(self.verbena("up", "--private", "inner").returncode, 0)
        env = dict(self.env, VERBENA_RUNTIME_DIR=self.dir + "/private-inner")
        for words in (["up", "--device", "other"], ["up", "--foreground"]):
            done = self.verbena(*words, env=env)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, "^verbena: [^\n]*; end it first: verbena down --private inner\n$")
        self.assertEqual(self.verbena("down", "--private", "inner", env=env).stdout, "emulator down\n")

    def test_a_run_with_a_name(self):
        run = self.start("--private=mine", "--", "sh", "-c", "echo ready; read word")
        run.stdout.readline()
        self.assertEqual(self.verbena("status", "--private", "mine").returncode, 0)
        self.assertEqual(self.verbena("up", "--private", "mine").returncode, 2)
        self.assertEqual(self.finish(run, "on\n").returncode, 0)
        self.nothing_is_left()
        # The directory that a killed emulator has left does not keep the name taken.
        os.mkdir(self.dir + "/private-mine", 0o700)
        pathlib.Path(self.dir, "private-mine", "daemon.lock").write_text("1\n")
        self.assertEqual(self.verbena("run", "--private=mine", "--", "true").returncode, 0)
        self.nothing_is_left()

    def test_wrong_names(self):
        for command in (["up"], ["down"], ["status"], ["env"], ["fault", "--clear"]):
            for name in ("", "a b", "../x", "n" * 33):
                done = self.verbena(*command, "--private", name)
                self.assertEqual(done.returncode, 2, (command, name))
                self.assertRegex(done.stderr, "^verbena: [^\n]*\n$")
        done = self.verbena("up", "--private", "x", "--foreground")
        self.assertEqual((done.returncode, done.stderr),
                         (2, "verbena: --foreground is for the ordinary emulator: leave out --private\n"))
        self.assertFalse(os.path.exists(self.dir))

    def test_two_names(self):
        """It is an error, as of another option that is given twice. The same again, or none beside it, is no contradiction."""
        for words in (["--private=mine", "--private=other"], ["--private=mine", "--private", "--private=other"]):
            done = self.verbena("run", *words, "--", "touch", self.home + "/started")
            self.assertEqual((done.returncode, done.stderr),
                             (125, "verbena: run: --private names two emulators, mine and other: name one\n"))
        self.assertFalse(os.path.exists(self.home + "/started"))
        for words in (["--private=mine", "--private=mine"], ["--private", "--private=mine"], ["--private=mine", "--private"]):
            done = self.verbena("run", *words, "--", "sh", "-c", 'echo "${VERBENA_RUNTIME_DIR##*/}"')
            self.assertEqual((done.returncode, done.stdout), (0, "private-mine\n"), done.stderr)
        self.nothing_is_left()

    def test_one_that_cannot_be_had(self):
        done = self.verbena("up", "--private", "x", "--roce", "192.0.2.77")
        self.assertEqual(done.returncode, 1)
        self.assertIn("192.0.2.77 is not an address of this host", done.stderr)
        self.nothing_is_left()
