# SPDX-License-Identifier: BSD-2-Clause
"""Starting and ending, what can prevent them, and settings."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile

import control_client as cc
from emulator_case import EmulatorCase, free_fabric

NOBODY = 65534


class Starting(EmulatorCase):
    def test_only_the_owner_gets_in(self):
        self.up()
        self.assertEqual(stat.S_IMODE(os.stat(self.dir).st_mode), 0o700)
        self.assertEqual(stat.S_IMODE(os.stat(self.dir + "/control.sock").st_mode), 0o600)

    def test_many_start_one_at_once(self):
        words = [self.home + "/bin/verbena", "up", "--fabric", self.fabric]
        all_of_them = [subprocess.Popen(words, env=self.env, stdout=subprocess.PIPE, text=True)
                       for _ in range(12)]
        pids = set()
        for one in all_of_them:
            out, _ = one.communicate(timeout=60)
            self.assertEqual(one.returncode, 0)
            pids.add(out.split("pid ")[1].split(")")[0])
        self.assertEqual(len(pids), 1, "all met the same emulator")

    def test_two_daemons_by_hand(self):
        words = [self.home + "/bin/verbenad", "--fabric", self.fabric]
        first = subprocess.Popen(words + ["--foreground"], env=self.env, stderr=subprocess.PIPE)
        self.until(lambda: os.path.exists(self.dir + "/control.sock"), "no socket")
        second = subprocess.run(words, env=self.env, text=True, stderr=subprocess.PIPE, timeout=30)
        self.assertEqual(second.returncode, 0)
        self.assertIn("already", second.stderr)
        self.assertEqual(self.status()["pid"], first.pid)
        first.terminate()
        first.communicate()
        self.assertEqual(first.returncode, 0)
        self.assertFalse(os.path.exists(self.dir + "/control.sock"))
        self.assertFalse(os.path.exists(self.dir + "/shadow"))

    def test_stale_socket_is_replaced(self):
        os.mkdir(self.dir, 0o700)
        stale = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stale.bind(self.dir + "/control.sock")
        stale.close()
        self.assertEqual(self.verbena("status").returncode, 1)
        self.up()
        self.assertEqual(len(self.status()["devices"]), 1)

    def test_killed_daemon(self):
        self.up()
        client = cc.Client(self.dir).open_device()
        os.kill(self.daemon_pid(), signal.SIGKILL)
        with self.assertRaises(ConnectionResetError):
            client.receive()
        client.close()
        self.until(lambda: not self.daemon_pid(), "not dead")
        done = self.verbena("status")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no emulator is running", done.stderr)
        self.up()

    def test_who_lost_its_directory_leaves_that_of_its_successor(self):
        self.up()
        pid = self.daemon_pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            shutil.rmtree(self.dir)
            done = self.verbena("up", "--fabric", free_fabric(os.getpid() * 64 + 63))
            self.assertEqual(done.returncode, 0, done.stderr)
        finally:
            os.kill(pid, signal.SIGCONT)
        self.wait_for_end(pid)
        self.assertNotEqual(self.status()["pid"], pid)
        self.assertEqual(os.listdir(self.shadow("infiniband")), ["verbena0"])

    def test_down_and_up_at_once(self):
        self.up()
        with cc.Client(self.dir).open_device() as client:
            self.assertEqual(self.verbena("down").returncode, 0)
            client.next_unasked(cc.SHUTDOWN)
            with self.assertRaises(ConnectionResetError):
                client.receive()
        self.up()
        self.assertEqual(self.verbena("down").returncode, 0)
        self.assertIn("no emulator", self.verbena("down").stdout)

    def test_up_beside_down(self):
        """The emulator that `up` reaches may be about to end, also between two of its questions."""
        for _ in range(60):
            self.up()
            with subprocess.Popen([self.home + "/bin/verbena", "down"], env=self.env, stdout=subprocess.DEVNULL):
                self.up()

    def test_port_taken(self):
        holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        holder.bind((self.address, 4791))
        done = self.verbena("up", "--fabric", self.fabric)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"UDP port 4791 of {self.address} is taken", done.stderr)
        self.assertIn("another subnet: --fabric", done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1)
        run = self.verbena("run", "--fabric", self.fabric, "--", "true")
        self.assertEqual((run.returncode, run.stderr), (125, done.stderr))
        holder.close()
        self.up()

    def test_a_library_is_missing(self):
        """`up` and `run` repeat what the loader says."""
        def needed(program):
            words = subprocess.run(["ldd", self.home + "/bin/" + program], text=True, capture_output=True, check=True)
            return {line.split()[0] for line in words.stdout.splitlines() if "=> /" in line}
        only_the_daemons = sorted(needed("verbenad") - needed("verbena"))
        self.assertTrue(only_the_daemons)
        broken = self.home + "/" + only_the_daemons[0]
        open(broken, "w").close()
        env = dict(self.env, LD_LIBRARY_PATH=self.home)
        for words, code in ((["up"], 1), (["run", "--fabric", self.fabric, "--", "true"], 125)):
            done = self.verbena(*words, env=env)
            self.assertEqual(done.returncode, code)
            self.assertRegex(done.stderr, f"^verbena: the emulator cannot be started: .*{broken}: file too short\n$")

    def test_the_loopback_interface_is_down(self):
        private = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
        if subprocess.run([*private, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this container may not make a network namespace")
        command = [*private, self.home + "/bin/verbena"]
        for words in (["up"], ["up", "--fabric", self.fabric], ["doctor"]):
            done = subprocess.run(command + words, env=self.env, text=True, capture_output=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("bring lo up", done.stderr + done.stdout)

    def test_few_descriptors_are_named(self):
        for most in range(7, 21):
            words = f"ulimit -n {most}; exec {self.home}/bin/verbena up --fabric {self.fabric}"
            done = subprocess.run(["sh", "-c", words], env=self.env, text=True, capture_output=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertRegex(done.stderr, f"Too many open files.*raise `ulimit -n`, which is {most}", most)
            self.assertNotIn("loopback", done.stderr)

    def test_address_of_another_host(self):
        done = self.verbena("up", "--roce", "192.0.2.77")
        self.assertEqual(done.returncode, 1)
        self.assertIn("192.0.2.77 is not an address of this host", done.stderr)

    def test_running_with_other_devices(self):
        self.up()
        done = self.verbena("up", "--fabric", self.fabric, "--device", "mlx5_0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("verbena down", done.stderr)
        done = self.verbena("up", "--fabric", self.address + "/24")
        self.assertEqual(done.returncode, 1, "a part of the fabric may have peers in other emulators")
        self.assertRegex(done.stderr, f"another fabric .*{self.address}/24\\), and .*{self.address}/24, beside other emulators\\)")
        self.up()  # works, because the devices are the same

    def test_directory_of_somebody_else(self):
        os.mkdir(self.dir, 0o700)
        theirs = self.dir
        if os.geteuid() == 0:
            os.chown(self.dir, NOBODY, NOBODY)
        else:
            theirs = "/usr"
        done = self.verbena("up", env=dict(self.env, VERBENA_RUNTIME_DIR=theirs))
        self.assertEqual(done.returncode, 1)
        self.assertIn("belongs to user id", done.stderr)

    def test_directory_open_to_all(self):
        os.mkdir(self.dir)
        os.chmod(self.dir, 0o755)
        done = self.verbena("up")
        self.assertEqual(done.returncode, 1)
        self.assertIn("chmod 700", done.stderr)

    def test_directory_that_is_a_file(self):
        open(self.dir, "w").close()
        done = self.verbena("up")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not a directory", done.stderr)

    def test_nothing_of_the_caller_stays_open(self):
        reading, writing = os.pipe()
        words = [self.home + "/bin/verbena", "up", "--fabric", self.fabric]
        subprocess.run(words, env=self.env, stdout=writing, stderr=writing, pass_fds=[writing],
                       check=True)
        os.close(writing)
        while os.read(reading, 4096):
            pass  # the file ends only when no process holds the other side
        os.close(reading)

    def test_two_users(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to become somebody else")
        theirs = tempfile.mkdtemp(prefix="verbena-nobody-")
        os.chown(theirs, NOBODY, NOBODY)
        as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        env = dict(self.env, VERBENA_RUNTIME_DIR=theirs + "/run", HOME=theirs)
        env.pop("XDG_CONFIG_HOME")
        command = [self.home + "/bin/verbena"]

        def nobody(*words, **more):
            return subprocess.run(as_nobody + command + list(words), env=dict(env, **more),
                                  text=True, capture_output=True, timeout=60)

        try:
            self.up()
            done = nobody("up")  # each user has a part of 127.0.0.0/8
            self.assertEqual(done.returncode, 0, done.stderr)
            told = json.loads(nobody("status", "--json").stdout)
            self.assertNotEqual(told["pid"], self.status()["pid"])
            self.assertNotEqual(told["devices"][0]["address"], self.address)
            done = nobody("status", VERBENA_RUNTIME_DIR=self.dir)
            self.assertEqual(done.returncode, 1)
            self.assertIn("belongs to user id 0", done.stderr)
        finally:
            nobody("down")
            shutil.rmtree(theirs)


class Settings(EmulatorCase):
    def config(self, words):
        path = self.home + "/my.toml"
        with open(path, "w") as file:
            file.write(words)
        return path

    def test_devices_from_a_file(self):
        path = self.config(f'fabric = "{self.fabric}"\ndevices = ["a", "mlx5_0"]\n')
        done = self.verbena("up", "--config", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([d["name"] for d in self.status()["devices"]], ["a", "mlx5_0"])
        self.assertEqual([d["ports"][0]["lid"] for d in self.status()["devices"]], [1, 2])

    def test_default_file(self):
        os.mkdir(self.home + "/verbena")
        with open(self.home + "/verbena/config.toml", "w") as file:
            file.write(f'fabric = "{self.fabric}"\ndevices = "x"\n')
        self.assertEqual(self.verbena("up").returncode, 0)
        self.assertEqual(self.status()["devices"][0]["name"], "x")

    def test_what_is_wrong_is_named(self):
        for words, expected in (
                ('colour = "red"', 'unknown key "colour"'),
                ('\ndevices = 3', ':2: "devices" must be'),
                ('fabric = "10.0.0.0"', 'fabric "10.0.0.0" is not a subnet'),
                ('roce = ["10.0.0.300"]', '"10.0.0.300" is not an IPv4 or IPv6 address'),
                ('devices = ["a/b"]', 'device name "a/b"'),
                ('devices = [', ':1: '),
        ):
            done = self.verbena("up", "--config", self.config(words))
            self.assertEqual(done.returncode, 1, words)
            self.assertIn(expected, done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        done = self.verbena("up", "--config", self.home + "/none.toml")
        self.assertIn("No such file", done.stderr)
        self.assertIn("Is a directory", self.verbena("up", "--config", self.home).stderr)

    def test_roce_device(self):
        done = self.verbena("up", "--roce", self.address, "--device", "rocky")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.read("infiniband/rocky/ports/1/link_layer"), "Ethernet\n")
        self.assertEqual(self.read("infiniband/rocky/ports/1/gid_attrs/types/3"), "RoCE v2\n")
        self.assertEqual(self.read("infiniband/rocky/ports/1/gid_attrs/ndevs/3"), "lo\n")
        gid = self.read("infiniband/rocky/ports/1/gids/3").strip()
        self.assertEqual(bytes.fromhex(gid.replace(":", ""))[10:],
                         b"\xff\xff" + socket.inet_aton(self.address))
