#!/usr/bin/env python3
"""verbena and verbenad as users meet them: real processes, real sockets, and what goes wrong.

    emulator_test.py BIN_DIR [unittest arguments]
"""

import json
import os
import resource
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import control_client as cc

BIN = None  # the folder of verbena and verbenad
NOBODY = 65534


class EmulatorCase(unittest.TestCase):
    """Each test has a runtime directory and a part of 127.0.0.0/8 of its own."""

    counter = 0

    def setUp(self):
        EmulatorCase.counter += 1
        self.home = tempfile.mkdtemp(prefix="verbena-test-")
        os.chmod(self.home, 0o755)
        # The programs, with a preload library that does nothing: they find their parts beside them.
        shutil.copytree(BIN, self.home + "/bin", ignore=lambda _, names: [
            n for n in names if n not in ("verbena", "verbenad")])
        os.mkdir(self.home + "/lib")
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o",
                        self.home + "/lib/libverbena-preload.so"], check=True)
        self.dir = self.home + "/run"
        number = os.getpid() * 64 + EmulatorCase.counter
        self.fabric = f"127.{100 + (number >> 8) % 100}.{number & 255}.0/24"
        self.address = self.fabric.replace(".0/24", ".1")
        self.env = dict(os.environ, VERBENA_RUNTIME_DIR=self.dir, XDG_CONFIG_HOME=self.home)
        for name in ("LD_PRELOAD", "RDMAV_DRIVERS", "VERBENA_LOG"):
            self.env.pop(name, None)

    def tearDown(self):
        pid = self.daemon_pid()
        if pid:
            fd = os.pidfd_open(pid)
            os.kill(pid, signal.SIGTERM)
            self.assertTrue(select.select([fd], [], [], 10)[0], "the daemon does not end")
            os.close(fd)
        shutil.rmtree(self.home, ignore_errors=True)

    def daemon_pid(self):
        """The daemon's process, if it lives."""
        try:
            with open(self.dir + "/daemon.lock") as lock:
                pid = int(lock.read())
            with open(f"/proc/{pid}/comm") as comm:
                return pid if comm.read().strip() == "verbenad" else None
        except (OSError, ValueError):
            return None

    def verbena(self, *words, env=None, **more):
        return subprocess.run([self.home + "/bin/verbena", *words], env=env or self.env, text=True,
                              capture_output=True, timeout=60, **more)

    def up(self, *words):
        done = self.verbena("up", "--fabric", self.fabric, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def status(self):
        done = self.verbena("status", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def wait_for_end(self, pid, seconds=15):
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        ended = select.select([fd], [], [], seconds)[0]
        os.close(fd)
        self.assertTrue(ended, f"process {pid} still lives")

    def until(self, condition, what, seconds=10):
        """Waits for another process to have done something that sends no word."""
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)

    def shadow(self, path):
        return self.dir + "/shadow/sys/class/" + path

    def read(self, path):
        with open(self.shadow(path)) as file:
            return file.read()


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

    def test_port_taken(self):
        holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        holder.bind((self.address, 4791))
        done = self.verbena("up", "--fabric", self.fabric)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"UDP port 4791 of {self.address} is taken", done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1)
        holder.close()
        self.up()

    def test_address_of_another_host(self):
        done = self.verbena("up", "--roce", "192.0.2.77")
        self.assertEqual(done.returncode, 1)
        self.assertIn("192.0.2.77 is not an address of this host", done.stderr)

    def test_running_with_other_devices(self):
        self.up()
        done = self.verbena("up", "--fabric", self.fabric, "--device", "mlx5_0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("verbena down", done.stderr)
        self.up()  # the same devices: fine

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
            pass  # the end comes only if nobody holds the other side
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
            done = nobody("up")  # each user's own part of 127.0.0.0/8
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

    def test_roce_device(self):
        done = self.verbena("up", "--roce", self.address, "--device", "rocky")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.read("infiniband/rocky/ports/1/link_layer"), "Ethernet\n")
        self.assertEqual(self.read("infiniband/rocky/ports/1/gid_attrs/types/0"), "RoCE v2\n")
        self.assertEqual(self.read("infiniband/rocky/ports/1/gid_attrs/ndevs/0"), "lo\n")
        gid = self.read("infiniband/rocky/ports/1/gids/0").strip()
        self.assertEqual(bytes.fromhex(gid.replace(":", ""))[10:],
                         b"\xff\xff" + socket.inet_aton(self.address))


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
        env = dict(self.env, LD_PRELOAD="libc.so.6", RDMAV_DRIVERS="other")
        done = self.run_in("--", "env", env=env)
        seen = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        self.assertEqual(seen["LD_PRELOAD"], self.home + "/lib/libverbena-preload.so:libc.so.6")
        self.assertEqual(seen["RDMAV_DRIVERS"], self.home + "/lib/libverbena:other")
        self.assertEqual(seen["VERBENA_RUNTIME_DIR"], self.dir)
        self.assertEqual(seen["VERBENA_LOG"], "explain")
        twice = self.run_in("--", self.home + "/bin/verbena", "run", "--", "env")
        self.assertIn(f"LD_PRELOAD={self.home}/lib/libverbena-preload.so\n", twice.stdout)
        self.assertNotIn("VERBENA_LOG", self.run_in("--quiet", "--", "env").stdout)

    def test_options_of_the_program_are_its_own(self):
        self.assertEqual(self.run_in("echo", "--fabric", "-x").stdout, "--fabric -x\n")
        self.assertEqual(self.run_in("--", "echo", "--", "y").stdout, "-- y\n")

    def test_it_ends_after_its_last_user(self):
        program = subprocess.Popen([self.home + "/bin/verbena", "run", "--fabric", self.fabric,
                                    "--", "cat"], env=self.env, stdin=subprocess.PIPE)
        self.until(self.daemon_pid, "no daemon")
        self.assertEqual(self.run_in("--", "true").returncode, 0)
        daemon = self.daemon_pid()
        time.sleep(2)  # longer than it lingers
        self.assertEqual(self.daemon_pid(), daemon, "cat is still there")
        program.communicate()
        self.wait_for_end(daemon)
        self.assertFalse(os.path.exists(self.dir + "/control.sock"))

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


class Clients(EmulatorCase):
    def test_slots_and_their_return(self):
        self.up()
        first, second = cc.Client(self.dir).open_device(), cc.Client(self.dir).open_device()
        self.assertEqual([first.slot, second.slot], [1, 2])
        extra = struct.unpack("<I", first.call(cc.EXTRA_SLOT)[1])[0]
        self.assertNotIn(extra, (0, 1, 2, 1023))
        with self.assertRaisesRegex(cc.Refused, "has a context already"):
            first.open_device()
        first.close()
        self.until(lambda: len(self.status()["devices"][0]["contexts"]) == 1, "slot not returned")
        again = cc.Client(self.dir).open_device()
        self.assertEqual(again.slot, 1)
        with self.assertRaisesRegex(cc.Refused, 'no device "x"; this emulator has verbena0'):
            cc.Client(self.dir).open_device("x")
        again.close()
        second.close()

    def test_steering(self):
        """A datagram arrives at the slot that its destination QPN names."""
        self.up()
        clients = [cc.Client(self.dir).open_device() for _ in range(5)]
        extra = struct.unpack("<I", clients[2].call(cc.EXTRA_SLOT)[1])[0]
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for slot, client in [(c.slot, c) for c in clients] + [(extra, clients[2])]:
            bth = struct.pack(">BBHIII", 4, 0, 0xffff, slot << 14 | 5, 0, slot)
            sender.sendto(bth, (self.address, 4791))
            receiver = socket.socket(fileno=os.dup(client.fds[0]))
            receiver.settimeout(10)
            self.assertEqual(receiver.recv(64), bth)
            receiver.close()
        for client in clients:
            client.close()

    def test_killed_client(self):
        self.up()
        child = subprocess.Popen([sys.executable, "-c", (
            "import sys, time; sys.path.insert(0, %r); import control_client as c\n"
            "x = c.Client(%r).open_device(); print(x.slot, flush=True); time.sleep(100)") % (
                os.path.dirname(os.path.abspath(__file__)), self.dir)], stdout=subprocess.PIPE)
        self.assertEqual(child.stdout.readline(), b"1\n")
        child.kill()
        child.communicate()
        self.until(lambda: not self.status()["devices"][0]["contexts"], "slot not returned")

    def test_two_hundred(self):
        self.up()
        clients = []
        lock = threading.Lock()

        def come():
            client = cc.Client(self.dir).open_device()
            with lock:
                clients.append(client)

        threads = [threading.Thread(target=come) for _ in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(c.slot for c in clients), list(range(1, 201)))
        answers = [threading.Thread(target=self.answer_status, args=(c,)) for c in clients]
        for thread in answers:
            thread.start()
        contexts = self.status()["devices"][0]["contexts"]
        for thread in answers:
            thread.join()
        self.assertEqual(len(contexts), 200)
        for client in clients:
            client.close()
        self.until(lambda: not self.status()["devices"][0]["contexts"], "slots not returned")

    def answer_status(self, client):
        _, sequence, _ = client.next_unasked(cc.STATUS_REQUEST)
        client.send(cc.STATUS_REPORT, self.report(client.slot), sequence)

    @staticmethod
    def report(slot, last=True):
        peer = b"\0" * 10 + b"\xff\xff" + socket.inet_aton("127.9.9.9")
        qp = struct.pack("<IBBB", slot << 14 | 1, 2, 3, 1) + peer + struct.pack(
            "<IIIII5Q", 0x8003, 11, 12, 1, 2, 100, 4096, 90, 2048, 3) + cc.text("")
        return struct.pack("<?5I", last, 1, 2, 1, 3, 0) + struct.pack("<I", 1) + qp

    def test_status_of_those_who_answer_and_those_who_do_not(self):
        self.up()
        with cc.Client(self.dir).open_device() as mute, cc.Client(self.dir).open_device() as good:
            answer = threading.Thread(target=self.answer_status, args=(good,))
            answer.start()
            begin = time.monotonic()
            contexts = self.status()["devices"][0]["contexts"]
            self.assertLess(time.monotonic() - begin, 5)
            answer.join()
            by_slot = {c["slot"]: c for c in contexts}
            self.assertFalse(by_slot[mute.slot]["responding"])
            self.assertTrue(by_slot[good.slot]["responding"])
            qp = by_slot[good.slot]["qps"][0]
            self.assertEqual(
                [qp[k] for k in ("qpn", "type", "state", "link", "sent_packets")],
                ["0x008001", "RC", "RTS", "udp", 100])
            self.assertEqual(qp["peer"], {"address": "127.9.9.9", "qpn": "0x008003"})
            self.assertEqual(by_slot[good.slot]["pid"], os.getpid())
            answer = threading.Thread(target=self.answer_status, args=(good,))
            answer.start()
            shown = self.verbena("status").stdout
            answer.join()
            self.assertIn("does not answer", shown)
            self.assertIn("QP 0x008001 RC", shown)

    def test_port_down_and_up(self):
        self.up()
        with cc.Client(self.dir).open_device() as client:
            port = "infiniband/verbena0/ports/1"
            before = os.stat(self.shadow("infiniband/verbena0")).st_mtime_ns
            self.assertEqual(self.read(port + "/state"), "4: ACTIVE\n")
            self.assertEqual(self.verbena("port", "verbena0", "down").returncode, 0)
            client.next_unasked(cc.PORT_EVENT)
            self.assertEqual(self.read(port + "/state"), "1: DOWN\n")
            self.assertEqual(self.read(port + "/phys_state"), "3: Disabled\n")
            self.assertEqual(self.verbena("port", "verbena0", "up").returncode, 0)
            client.next_unasked(cc.PORT_EVENT)
            self.assertEqual(self.read(port + "/state"), "4: ACTIVE\n")
            self.assertEqual(os.stat(self.shadow("infiniband/verbena0")).st_mtime_ns, before)
            done = self.verbena("port", "nope", "up")
            self.assertEqual(done.returncode, 1)
            self.assertIn('no device "nope"', done.stderr)
            self.assertEqual(self.verbena("port", "verbena0", "sideways").returncode, 2)

    def test_faults_reach_their_contexts(self):
        self.up()
        with cc.Client(self.dir).open_device() as client:
            done = self.verbena("fault", "--loss", "1%", "--delay", "2ms", "--qp", "0x4001")
            self.assertEqual(done.returncode, 0, done.stderr)
            _, _, body = client.next_unasked(cc.SET_FAULT)
            name, count = struct.unpack("<I8sI", body[:16])[1:]
            self.assertEqual((name, count), (b"verbena0", 1))
            fault = struct.unpack("<5I4Q", body[16:])
            self.assertEqual(fault[:2] + fault[5:6], (0x4001, 10000, 2_000_000))
            self.assertEqual(self.status()["devices"][0]["faults"][0]["loss_ppm"], 10000)
            self.assertEqual(self.verbena("fault", "--clear").returncode, 0)
            _, _, body = client.next_unasked(cc.SET_FAULT)
            self.assertEqual(body[-4:], b"\0\0\0\0")
            self.assertEqual(self.verbena("fault", "--loss", "much").returncode, 2)
            self.assertEqual(self.verbena("fault").returncode, 2)

    def test_counters_of_the_living_and_the_dead(self):
        self.up()
        port = "infiniband/verbena0/ports/1"
        before = os.stat(self.shadow("infiniband/verbena0")).st_mtime_ns
        living, dying = cc.Client(self.dir).open_device(), cc.Client(self.dir).open_device()
        for client, packets, octets in ((living, 3, 400), (dying, 2, 8000)):
            with client.stats() as page:
                page[16:32] = struct.pack("<QQ", packets, octets)
        with self.assertRaises(OSError):
            os.ftruncate(living.fds[1], 0)  # sealed: it must not pull the page from the daemon
        for _ in range(2):
            with cc.Client(self.dir, cc.KIND_PRELOAD) as reader:
                reader.call(cc.REFRESH_COUNTERS, cc.text("verbena0"))
            self.assertEqual(self.read(port + "/counters/port_xmit_packets"), "5\n")
            self.assertEqual(self.read(port + "/counters/port_xmit_data"), "2100\n")
            self.assertEqual(self.read(port + "/hw_counters/port_xmit_bytes"), "8400\n")
            dying.close()
            self.until(lambda: len(self.status()["devices"][0]["contexts"]) == 1, "still there")
        self.assertEqual(os.stat(self.shadow("infiniband/verbena0")).st_mtime_ns, before)
        living.close()

    def test_idle_costs_nothing(self):
        self.up()
        clients = [cc.Client(self.dir).open_device() for _ in range(10)]

        def cost():
            with open(f"/proc/{self.daemon_pid()}/stat") as file:
                ticks = file.read().rsplit(")", 1)[1].split()[11:13]
            with open(f"/proc/{self.daemon_pid()}/status") as file:
                wakes = [line for line in file if "ctxt_switches" in line]
            return ticks, wakes

        self.status()
        time.sleep(0.3)
        before = cost()
        time.sleep(2)
        self.assertEqual(cost(), before, "it woke though nobody asked for anything")
        for client in clients:
            client.close()

    def test_runtime_directory_vanishes(self):
        self.up()
        with cc.Client(self.dir).open_device() as client:
            os.rename(self.dir, self.dir + "-away")
            shutil.rmtree(self.dir + "-away")
            self.until(lambda: os.path.exists(self.dir + "/control.sock") and
                       os.path.exists(self.dir + "/shadow"), "not restored")
            client.call(cc.EXTRA_SLOT)  # the old connection goes on
            self.assertEqual(len(self.status()["devices"][0]["contexts"]), 1)
        os.remove(self.dir + "/control.sock")
        self.until(lambda: os.path.exists(self.dir + "/control.sock"), "not restored again")
        self.status()


class Strangers(EmulatorCase):
    def test_garbage(self):
        self.up()
        with cc.Client(self.dir).open_device() as good:
            for junk in (b"x", b"\0" * 16, os.urandom(64), os.urandom(60000), b"GET / HTTP/1.1\r\n",
                         cc.packet(cc.HELLO)[:-1], cc.packet(cc.HELLO, magic=1),
                         struct.pack("<IHHII", cc.MAGIC, 1, cc.HELLO, 1, 4096)):
                bad = cc.Client(self.dir, hello=False)
                bad.socket.send(junk)
                with self.assertRaises(ConnectionResetError):
                    bad.receive()
                bad.close()
            for payload in (b"", b"\x01", b"\x01\0\0\0\0\xff\xff\xff\xff", b"\x01" * 100):
                bad = cc.Client(self.dir, hello=False)
                with self.assertRaisesRegex(cc.Refused, "malformed control message Hello"):
                    bad.call(cc.HELLO, payload)
                bad.close()
            with self.assertRaisesRegex(cc.Refused, "takes no message"):
                good.call(0x7777)
            good.call(cc.EXTRA_SLOT)
            self.assertEqual(len(self.status()["devices"][0]["contexts"]), 1)

    def test_hello_comes_first(self):
        self.up()
        with cc.Client(self.dir, hello=False) as client:
            with self.assertRaisesRegex(cc.Refused, "must be Hello"):
                client.call(cc.OPEN_DEVICE, cc.text("verbena0"))

    def test_another_version(self):
        self.up()
        for version in (0, 2, 65535):
            with cc.Client(self.dir, hello=False) as client:
                client.socket.send(cc.packet(cc.HELLO, b"anything", version=version))
                kind, _, body = client.receive()
                self.assertEqual(kind, cc.REFUSED)
                self.assertIn(f"the program uses protocol {version}", body[8:].decode())
                self.assertIn("verbena down", body[8:].decode())

    def test_client_that_does_not_read(self):
        self.up()
        with cc.Client(self.dir).open_device() as deaf:
            deaf.socket.setblocking(False)
            try:
                for _ in range(200000):
                    deaf.send(cc.HELLO, struct.pack("<BI", 1, 1) + cc.text("deaf"))
            except (BlockingIOError, BrokenPipeError, ConnectionResetError):
                pass
            self.status()

    def test_few_descriptors(self):
        self.env = dict(self.env)
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        done = self.verbena("up", "--fabric", self.fabric, preexec_fn=limit)
        self.assertEqual(done.returncode, 0, done.stderr)
        clients = []
        with self.assertRaisesRegex(cc.Refused, "[Dd]escriptor|Too many open files"):
            for _ in range(64):
                clients.append(cc.Client(self.dir).open_device())
        self.assertGreater(len(clients), 8)
        clients[0].call(cc.EXTRA_SLOT)  # those who are in go on
        for client in clients:
            client.close()
        self.until(lambda: self.verbena("status").returncode == 0, "it does not recover")
        cc.Client(self.dir).open_device().close()


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
        self.assertIn("complete -c verbena", self.verbena("completion", "fish").stdout)
        self.assertEqual(self.verbena("completion", "tcsh").returncode, 2)

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

    def test_capture_makes_a_file(self):
        self.up()
        with cc.Client(self.dir).open_device() as client:
            path = self.home + "/x.pcapng"
            program = subprocess.Popen([self.home + "/bin/verbena", "capture", path], env=self.env,
                                       stderr=subprocess.PIPE, text=True)
            client.next_unasked(0x35)  # StartCapture
            self.assertEqual(len(client.fds), 3)
            self.assertIn("Ctrl-C", program.stderr.readline())
            with cc.Client(self.dir).open_device() as late:
                late.next_unasked(0x35)
            program.send_signal(signal.SIGINT)
            program.communicate(timeout=30)
            self.assertEqual(program.returncode, 0)
            client.next_unasked(0x36)  # StopCapture
            with open(path, "rb") as file:
                self.assertEqual(file.read(4), b"\x0a\x0d\x0d\x0a")


if __name__ == "__main__":
    BIN = os.path.abspath(sys.argv.pop(1))
    for needed in ("verbena", "verbenad"):
        if not os.access(os.path.join(BIN, needed), os.X_OK):
            sys.exit(f"{BIN}/{needed} is missing")
    unittest.main(verbosity=2)
