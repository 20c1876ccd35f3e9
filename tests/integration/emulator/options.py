# SPDX-License-Identifier: BSD-2-Clause
"""Each option of the commands does what it says, in each command that takes it."""

import json
import os
import socket
import subprocess

from emulator_case import EmulatorCase

# The command with which the tests see the devices that options choose.
SHOW = ["status", "--json"]


class Options(EmulatorCase):
    def config(self, words):
        path = self.home + "/my.toml"
        with open(path, "w", encoding="ascii") as file:
            file.write(words)
        return path

    def log(self):
        with open(self.dir + "/daemon.log", encoding="utf-8") as file:
            return file.read()

    def devices_of_run(self, *words):
        """Returns the devices that a program sees that is run with these options."""
        done = self.verbena("run", *words, "--", self.home + "/bin/verbena", *SHOW)
        self.assertEqual(done.returncode, 0, done.stderr)
        # The emulator would linger for a second, and a run with other devices would be refused.
        self.verbena("down")
        return json.loads(done.stdout)["devices"]

    def daemon(self, *words, **more):
        """Starts verbenad by hand, and returns once it listens."""
        process = subprocess.Popen([self.home + "/bin/verbenad", *words], env=self.env, text=True,
                                   stderr=subprocess.PIPE, **more)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return process

    def roce_and_name(self, devices):
        self.assertEqual([(d["name"], d["persona"], d["address"]) for d in devices],
                         [("rocky", "RoCE", self.address)])

    def test_run_with_devices(self):
        self.roce_and_name(self.devices_of_run("--roce", self.address, "--device", "rocky"))
        path = self.config(f'roce = "{self.address}"\ndevices = ["rocky"]\n')
        self.roce_and_name(self.devices_of_run("--config", path))
        self.assertEqual(self.devices_of_run("--fabric", self.fabric)[0]["address"], self.address)

    def test_up_with_devices(self):
        second = self.address[:-1] + "2"
        done = self.verbena("up", "--roce", self.address, "--roce", second, "--fabric", self.fabric.replace(".0/", ".64/"),
                            "--device", "a", "--device", "b", "--device", "c")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(d["name"], d["persona"], d["address"]) for d in self.status()["devices"]],
                         [("a", "RoCE", self.address), ("b", "RoCE", second), ("c", "InfiniBand", self.address[:-1] + "64")])

    def test_doctor_with_devices(self):
        for words in (["--fabric", self.fabric], ["--config", self.config(f'fabric = "{self.fabric}"\n')],
                      ["--roce", self.address, "--device", "rocky"]):
            done = self.verbena("doctor", *words)
            self.assertIn(f"UDP port 4791 of {self.address} is free", done.stdout)
        for words, told in ((["--roce", "192.0.2.77"], "192.0.2.77 is not an address of this host"),
                            (["--roce", "127.255.255.255"], "127.255.255.255 is a broadcast address"),
                            (["--device", "a/b"], 'device name "a/b"'),
                            (["--log-level", "loud"], 'log level "loud"')):
            done = self.verbena("doctor", *words)
            self.assertEqual(done.returncode, 1)
            self.assertIn(told, done.stdout)

    def test_doctor_with_other_devices_than_those_that_run(self):
        self.up()
        for words, told in ((["--roce", "192.0.2.77"], "192.0.2.77 is not an address of this host"),
                            (["--roce", self.address], "an emulator with other devices is running"),
                            (["--config", self.config('devices = ["x"]\n')], "an emulator with other devices is running")):
            done = self.verbena("doctor", *words)
            self.assertEqual(done.returncode, 1, words)
            self.assertRegex(done.stdout, f"FAULT  .*{told}.*\n       \\w")
        self.assertIn("it has the devices that are asked for", self.verbena("doctor", "--fabric", self.fabric).stdout)

    def test_wrong_words(self):
        """The command line is wrong: 2. What the host has not, and what a file says: 1."""
        for words in (["--roce", "1.2.3"], ["--fabric", "10.1.0.0/33"], ["--device", "a b"], ["--log-level", "loud"]):
            for private in ([], ["--private", "x"]):
                done = self.verbena("up", *words, *private)
                self.assertEqual(done.returncode, 2, words)
                self.assertIn(f'"{words[1]}"', done.stderr)
            self.assertEqual(self.verbena("run", *words, "--", "true").returncode, 125)
        self.assertEqual(self.verbena("up", "--roce", "192.0.2.77").returncode, 1)
        self.assertEqual(self.verbena("up", "--config", self.config('fabric = "1"\n'), "--device", "x").returncode, 1)

    def test_log_level(self):
        """The level is off, the default, or from a file; the command line takes precedence."""
        self.up("--log-level", "off")
        self.assertEqual(self.log(), "")
        self.verbena("down")
        self.up("--log-level", "info")
        self.assertIn(f"verbena0 at {self.address}", self.log())
        self.verbena("down")
        path = self.config(f'fabric = "{self.fabric}"\nlog_level = "off"\n')
        self.assertEqual(self.verbena("up", "--config", path).returncode, 0)
        self.assertEqual(self.log(), "")
        self.verbena("down")
        for command in (["run"], ["up"]):
            words = ["--", "true"] if command == ["run"] else []
            done = self.verbena(*command, "--config", path, "--log-level", "info", *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"verbena0 at {self.address}", self.log())
            self.verbena("down")

    def test_a_log_level_that_comes_too_late(self):
        self.up("--log-level", "info")
        for words in (["up"], ["run", "--", "true"], ["run", "--timeout", "50", "--", "true"]):
            done = self.verbena(words[0], "--log-level", "debug", *words[1:])
            self.assertEqual((done.returncode, done.stderr), (0, "verbena: --log-level is not used: the emulator was running "
                                                              "already, with a level of its own\n"), words)
            self.assertEqual(self.verbena(*words).stderr, "")

    def test_settings_of_the_file_that_are_not_used(self):
        """--device, --fabric and --roce together replace the three settings that choose devices."""
        why = "; any of --fabric, --roce and --device replaces all three settings of the file\n"
        path = self.config(f'fabric = "{self.fabric}"\ndevices = ["mine"]\nlog_level = "info"\n')
        for words, dropped in ((["--fabric", self.fabric], "devices"), (["--roce", self.address], "fabric, devices"),
                               (["--fabric", self.fabric, "--device", "other"], ""), (["--log-level", "off"], "")):
            done = self.verbena("up", "--config", path, *words)
            self.assertEqual((done.returncode, done.stderr), (0, f"verbena: {path}: not used: {dropped}{why}" if dropped else ""),
                             words)
            self.verbena("down")
        done = self.verbena("run", "--private", "--config", path, "--device", "other", "--", "true")
        self.assertEqual((done.returncode, done.stderr), (0, f"verbena: {path}: not used: fabric{why}"))
        # So it is with the default file.
        os.mkdir(self.home + "/verbena")
        os.rename(path, self.home + "/verbena/config.toml")
        done = self.verbena("run", "--fabric", self.fabric, "--", "true")
        self.assertEqual((done.returncode, done.stderr), (0, f"verbena: {self.home}/verbena/config.toml: not used: devices{why}"))

    def test_other_devices_than_those_that_run(self):
        """The first difference is named, also if it is the fabric alone."""
        self.up()
        other = self.fabric.replace(".0/24", ".64/26")
        pid, here = self.daemon_pid(), f"verbena0 (InfiniBand, {self.address}/24)"
        for words, what, wanted in ((["--fabric", other], "another fabric", f"verbena0 (InfiniBand, {self.address[:-1]}65/26)"),
                                    (["--fabric", self.fabric, "--device", "x"], "other devices", f"x (InfiniBand, {self.address}/24)")):
            done = self.verbena("up", *words)
            self.assertEqual((done.returncode, done.stderr),
                             (1, f"verbena: an emulator with {what} is running (pid {pid}): it has {here}, and {wanted} is "
                                 "asked for; end it first: verbena down\n"))
        done = self.verbena("up", "--fabric", self.fabric, "--device", "verbena0", "--device", "b")
        self.assertIn(f"it has no further device, and b (InfiniBand, {self.address[:-1]}2/24) is asked for", done.stderr)

    def test_explain_in_a_file(self):
        for value, seen in (("true", True), ("false", False)):
            path = self.config(f'fabric = "{self.fabric}"\nexplain = {value}\n')
            done = self.verbena("run", "--config", path, "--", "env")
            self.assertEqual("VERBENA_LOG=explain" in done.stdout, seen)

    def test_foreground(self):
        process = subprocess.Popen([self.home + "/bin/verbena", "up", "--foreground", "--fabric", self.fabric],
                                   env=self.env, text=True, stderr=subprocess.PIPE)
        line = process.stderr.readline()
        self.assertIn(f"verbena0 at {self.address}", line)
        self.until(lambda: self.verbena("status").returncode == 0, "it does not listen")
        self.assertEqual(self.status()["pid"], process.pid)
        self.assertEqual(self.verbena("down").returncode, 0)
        self.assertIn("going down", process.communicate(timeout=60)[1])
        self.assertEqual(process.returncode, 0)

    def test_env_for_each_shell(self):
        for shell, begins in (("sh", "export "), ("bash", "export "), ("zsh", "export "), ("fish", "set -gx ")):
            done = self.verbena("env", "--shell", shell)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(all(line.startswith(begins) for line in done.stdout.splitlines()), done.stdout)
        self.assertEqual(self.verbena("env", "--shell", "tcsh").returncode, 2)

    def test_version(self):
        version = self.verbena("version").stdout
        self.assertEqual(self.verbena("--version").stdout, version)
        number = subprocess.run([self.home + "/bin/verbenad", "--version"], text=True, capture_output=True, check=True)
        self.assertEqual("verbena " + number.stdout, version)

    def test_daemon_by_hand(self):
        """The options say where the daemon lives, which devices it has, and how it reports that it is ready."""
        elsewhere = self.home + "/elsewhere"
        reading, writing = os.pipe()
        process = self.daemon("--runtime-dir", elsewhere, "--roce", self.address, "--device", "rocky", "--foreground",
                              "--log-level", "info", "--ready-fd", str(writing), pass_fds=[writing])
        os.close(writing)
        self.assertEqual(os.read(reading, 100), b"ready\n")
        os.close(reading)
        self.assertIn(f"rocky at {self.address}", process.stderr.readline())
        done = self.verbena(*SHOW, env=dict(self.env, VERBENA_RUNTIME_DIR=elsewhere))
        self.roce_and_name(json.loads(done.stdout)["devices"])
        self.assertEqual(self.verbena("status").returncode, 1, "not here")

    def test_daemon_with_a_file(self):
        path = self.config('devices = ["mine"]\n')
        self.daemon("--config", path, "--fabric", self.fabric)
        self.until(lambda: self.verbena("status").returncode == 0, "it does not listen")
        # The devices of the command line replace all devices of the file.
        self.assertEqual([(d["name"], d["address"]) for d in self.status()["devices"]], [("verbena0", self.address)])
        self.verbena("down")
        self.daemon("--config", self.config(f'fabric = "{self.fabric}"\ndevices = ["mine"]\n'))
        self.until(lambda: self.verbena("status").returncode == 0, "it does not listen")
        self.assertEqual([d["name"] for d in self.status()["devices"]], ["mine"])

    def test_daemon_that_ends_when_idle(self):
        process = self.daemon("--fabric", self.fabric, "--exit-when-idle")
        self.assertEqual(process.wait(60), 0)
        self.assertFalse(os.path.exists(self.dir + "/control.sock"))

    def test_runtime_directory(self):
        """The runtime directory is VERBENA_RUNTIME_DIR, or else a directory below XDG_RUNTIME_DIR."""
        self.up()
        self.assertEqual(self.status()["runtime_dir"], self.dir)
        self.verbena("down")
        env = dict(self.env, XDG_RUNTIME_DIR=self.home)
        del env["VERBENA_RUNTIME_DIR"]
        self.assertEqual(self.verbena("up", "--fabric", self.fabric, env=env).returncode, 0)
        try:
            self.assertEqual(json.loads(self.verbena(*SHOW, env=env).stdout)["runtime_dir"], self.home + "/verbena")
        finally:
            self.verbena("down", env=env)

    def test_a_runtime_directory_that_depends_on_where_one_is(self):
        """It is refused. Another emulator than the wanted one must not answer, let alone end."""
        self.up()
        env = dict(self.env, VERBENA_RUNTIME_DIR="other", XDG_RUNTIME_DIR=self.home)
        told = "verbena: VERBENA_RUNTIME_DIR=other(/private-x)? is no absolute path\n"
        for words, code in ((["down"], 1), (["up"], 1), (["status"], 1), (["env"], 1), (["run", "--", "true"], 125),
                            (["run", "--private", "--", "true"], 125), (["status", "--private", "x"], 1)):
            done = self.verbena(*words, env=env, cwd=self.home)
            self.assertEqual(done.returncode, code, words)
            self.assertRegex(done.stderr, f"^{told}$", words)
        self.assertFalse(os.path.exists(self.home + "/other"))
        self.assertEqual(self.status()["runtime_dir"], self.dir)

    def test_a_log_that_is_misspelt(self):
        for log, told in (("EXPLAIN", True), ("", False), ("explain-all", False)):
            done = self.verbena("run", "--fabric", self.fabric, "--", "true", env=dict(self.env, VERBENA_LOG=log))
            self.assertEqual((done.returncode, done.stderr), (0, "verbena: VERBENA_LOG=EXPLAIN is neither explain nor "
                                                              "explain-all: nothing is explained\n" if told else ""))

    def test_fail_in_the_environment_of_the_program(self):
        done = self.verbena("run", "--fabric", self.fabric, "--fail", "ibv_reg_mr=ENOMEM@3", "--fail", "ibv_create_qp=EIO",
                            "--", "env")
        self.assertIn("VERBENA_FAIL=ibv_reg_mr=ENOMEM@3,ibv_create_qp=EIO\n", done.stdout)

    def test_fail_adds_to_the_environment(self):
        """For a function that both name, the command line counts alone; a wrong item is left to the driver."""
        self.env["VERBENA_FAIL"] = "ibv_reg_mr=EIO@2,,ibv_create_cq=ENOMEM,rdma_listen=EIO,wrong"
        for words, wanted in (((), self.env["VERBENA_FAIL"]),
                              (("--fail", "ibv_reg_mr=ENOMEM@3", "--fail", "rdma_listen=ENOMEM"),
                               "ibv_create_cq=ENOMEM,wrong,ibv_reg_mr=ENOMEM@3,rdma_listen=ENOMEM")):
            for private in ((), ("--private",)):
                done = self.verbena("run", *(private or ("--fabric", self.fabric)), *words, "--", "printenv", "VERBENA_FAIL")
                self.assertEqual(done.stdout, wanted + "\n", done.stderr)

    def test_port_words(self):
        self.up()
        for word, state in (("down", "DOWN"), ("up", "ACTIVE")):
            self.assertEqual(self.verbena("port", "verbena0", word).returncode, 0)
            self.assertEqual(self.status()["devices"][0]["ports"][0]["state"], state)

    def test_a_port_that_is_taken_by_another_device(self):
        """The second `verbena up` asks for a RoCE device whose port the first emulator has."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
            holder.bind((self.address, 4791))
            done = self.verbena("up", "--roce", self.address)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"UDP port 4791 of {self.address} is taken", done.stderr)

    def test_completion_of_each_shell(self):
        for shell in ("bash", "zsh", "fish"):
            done = self.verbena("completion", shell)
            self.assertEqual(done.returncode, 0)
            for word in ("capture", "json", "log-level"):
                self.assertIn(word, done.stdout, shell)
