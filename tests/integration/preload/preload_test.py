# SPDX-License-Identifier: BSD-2-Clause
"""The preload library under the distribution's own programs.

The tests' own emulator (fake_emulator) has two devices, verbena0 and roce0; nothing else of Verbena runs. Each test has
a directory and starts its own processes.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = os.environ["VERBENA_TEST_BIN"]
LIBRARY = os.environ["VERBENA_TEST_PRELOAD"]
FAKE_KERNEL = os.environ["VERBENA_TEST_FAKE_KERNEL"]
PLUGIN = os.environ["VERBENA_TEST_PLUGIN"]  # the value for RDMAV_DRIVERS
DAEMON = os.environ.get("VERBENA_TEST_DAEMON", "")  # empty if the emulator itself is not built
FIRST = os.environ.get("VERBENA_TEST_FIRST", "")  # a sanitizer's runtime that must come first

DEVICE = "/sys/class/infiniband/verbena0"


class PreloadTest(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="vbp-")
        self.runtime = os.path.join(self.top, "rt")
        self.emulator = None

    def tearDown(self):
        self.stop_emulator()
        shutil.rmtree(self.top)

    def start_emulator(self, *options):
        self.emulator = subprocess.Popen(
            [os.path.join(BIN, "fake_emulator"), self.runtime, *options],
            stdout=subprocess.PIPE, text=True)
        self.assertEqual(self.emulator.stdout.readline(), "ready\n")

    def stop_emulator(self):
        if self.emulator:
            self.emulator.kill()
            self.emulator.wait()
            self.emulator.stdout.close()
            self.emulator = None

    def environment(self, behind=(), before=(), **extra):
        env = dict(os.environ)
        env["LD_PRELOAD"] = ":".join([p for p in [*before, FIRST, LIBRARY, *behind] if p])
        env["VERBENA_RUNTIME_DIR"] = self.runtime
        env.setdefault("ASAN_OPTIONS", "detect_leaks=0")
        env.update(extra)
        return env

    def run_program(self, *command, timeout=60, cwd=None, behind=(), before=(), **extra):
        return subprocess.run(command, env=self.environment(behind, before, **extra), text=True,
                              capture_output=True, timeout=timeout, cwd=cwd)

    def output(self, *command, **keywords):
        done = self.run_program(*command, **keywords)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
        return done.stdout

    def python(self, code, **keywords):
        return self.output(sys.executable, "-c", code, **keywords)

    def output_with_fake_kernel(self, *command, **keywords):
        """Runs a program with the fake kernel, as root of a network namespace: the fake kernel needs root."""
        prefix = [] if os.geteuid() == 0 else ["unshare", "-Urn"]
        return self.output(*prefix, *command, behind=[FAKE_KERNEL], **keywords)

    def make_foreign_device(self):
        """Makes a foreign device, in a tree that stands for the real /sys and /dev."""
        root = os.path.join(self.top, "real")
        device = os.path.join(root, "sys/class/infiniband/foreign0")
        os.makedirs(device)
        for name, text in (("node_type", "1: CA\n"), ("fw_ver", "foreign\n")):
            with open(os.path.join(device, name), "w") as file:
                file.write(text)
        verbs = os.path.join(root, "sys/class/infiniband_verbs")
        os.makedirs(os.path.join(verbs, "uverbs0"))
        with open(os.path.join(verbs, "abi_version"), "w") as file:
            file.write("6\n")
        os.makedirs(os.path.join(root, "dev/infiniband"))
        return root


class WithEmulator(PreloadTest):
    def setUp(self):
        super().setUp()
        self.start_emulator()

    # -- every wrapped call --------------------------------------------------------------------

    def test_probe(self):
        self.output(os.path.join(BIN, "preload_probe_plain"))

    def test_probe_under_asan(self):
        """The probe runs with either order of the libraries. tests/integration/faults has whole programs."""
        runtime = subprocess.check_output(["gcc", "-print-file-name=libasan.so"], text=True)
        program = os.path.join(BIN, "preload_probe_address")
        self.output(program, before=[runtime.strip()])
        self.output(program)

    def test_probe_under_tsan(self):
        self.output(os.path.join(BIN, "preload_probe_thread"))

    @unittest.skipIf(FIRST, "valgrind and a library with a sanitizer in it exclude each other")
    def test_probe_under_valgrind(self):
        done = self.run_program("valgrind", "-q", "--error-exitcode=9", "--trace-children=yes",
                                os.path.join(BIN, "preload_probe_plain"), timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_under_gdb(self):
        """gdb gives the preload library to the program alone and does not load it itself."""
        env = self.environment()
        preload = env.pop("LD_PRELOAD").replace(":", " ")
        done = subprocess.run(
            ["gdb", "-q", "-batch", "-ex", "set startup-with-shell off",
             "-ex", f"set environment LD_PRELOAD {preload}", "-ex", "run",
             "--args", shutil.which("rdma"), "dev"],
            env=env, text=True, capture_output=True, timeout=120)
        self.assertIn("verbena0", done.stdout)

    # -- iproute2 ------------------------------------------------------------------------------

    def test_rdma_dev(self):
        lines = self.output("rdma", "dev").splitlines()
        self.assertEqual(len(lines), 2)
        self.assertIn("verbena0: node_type ca fw 1.2.3 node_guid 0256:5201:7f01:0001", lines[0])
        self.assertIn("roce0: node_type ca", lines[1])
        self.assertIn("roce0", self.output("rdma", "dev", "show", "roce0"))

    def test_rdma_link(self):
        lines = self.output("rdma", "link").splitlines()
        self.assertEqual(lines[0].strip(),
                         "link verbena0/1 subnet_prefix fe80:0000:0000:0000 lid 1 sm_lid 1 lmc 0 "
                         "state ACTIVE physical_state LINK_UP")
        self.assertEqual(lines[1].strip(),
                         "link roce0/1 state ACTIVE physical_state LINK_UP netdev lo")

    def test_rdma_resource(self):
        self.assertIn("verbena0: pd 2 cq 4 qp 120 cm_id 6 mr 8 ctx 2 srq 10",
                      self.output("rdma", "res"))
        pairs = self.output("rdma", "res", "show", "qp", "link", "verbena0/1").splitlines()
        self.assertEqual(len(pairs), 120)
        self.assertIn("lqpn 16384 rqpn 77 type RC state RTS", pairs[0])
        self.assertEqual(self.output("rdma", "res", "show", "qp", "lqpn", "16390").split()[:4],
                         ["link", "verbena0/1", "lqpn", "16390"])
        for kind in ("cq", "mr", "pd", "cm_id", "srq"):
            self.assertEqual(self.output("rdma", "res", "show", kind).strip(), "")

    def test_rdma_system(self):
        self.assertIn("netns shared", self.output("rdma", "system"))

    def test_rdma_cannot_change_anything(self):
        done = self.run_program("rdma", "dev", "set", "verbena0", "name", "other")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("not permitted", done.stderr)

    # -- infiniband-diags ----------------------------------------------------------------------

    def test_ibstat(self):
        text = self.output("ibstat")
        for expected in ("CA 'verbena0'", "CA 'roce0'", "Node GUID: 0x025652017f010001",
                         "State: Active", "Base lid: 1", "Rate: 100", "Link layer: Ethernet"):
            self.assertIn(expected, text)
        self.assertEqual(self.output("ibstat", "-l").split(), ["roce0", "verbena0"])

    def test_ibstatus(self):
        """ibstatus is a shell script: it uses dash, cat and their globs."""
        text = self.output("ibstatus")
        self.assertIn("Infiniband device 'verbena0' port 1 status:", text)
        self.assertIn("default gid:\t fe80:0000:0000:0000:0256:5200:7f01:0001", text)

    # -- libibverbs ----------------------------------------------------------------------------

    def test_libibverbs_by_dlopen(self):
        """Without a plugin libibverbs lists nothing, but it must have seen the devices."""
        code = ("import ctypes, os\n"
                "lib = ctypes.CDLL('libibverbs.so.1', mode=os.RTLD_LOCAL | os.RTLD_NOW)\n"
                "n = ctypes.c_int(-1)\n"
                "lib.ibv_get_device_list.restype = ctypes.c_void_p\n"
                "assert lib.ibv_get_device_list(ctypes.byref(n))\n"
                "print(n.value)\n")
        done = self.run_program(sys.executable, "-c", code, VERBENA_PRELOAD_TRACE="1",
                                RDMAV_DRIVERS="")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("stands in for NETLINK_RDMA", done.stderr)
        self.assertIn("/dev/infiniband/uverbs192 -> ", done.stderr)

    # -- shells, core utilities, python --------------------------------------------------------

    def test_core_utilities(self):
        self.assertEqual(self.output("ls", "/sys/class/infiniband").split(), ["roce0", "verbena0"])
        self.assertIn("231, 384", self.output("ls", "-l", "/dev/infiniband/uverbs192"))
        self.assertEqual(self.output("cat", DEVICE + "/node_type"), "1: CA\n")
        self.assertIn(DEVICE + "/ports/1/gids/0", self.output("find", DEVICE))
        self.assertIn("ACTIVE", self.output("grep", "-r", "ACTIVE", DEVICE + "/ports"))
        self.assertEqual(self.output("stat", "-c", "%F %t:%T", "/dev/infiniband/uverbs192"),
                         "character special file e7:180\n")

    def test_shells(self):
        script = ('for d in /sys/class/infiniband/*; do echo "${d##*/}"; done; '
                  "[ -d /sys/class/infiniband/verbena0 ] && [ -c /dev/infiniband/uverbs192 ] && "
                  "[ -r /sys/class/infiniband/verbena0/fw_ver ] && cd /sys/class/infiniband && "
                  "read -r v < verbena0/fw_ver && echo $v")
        for shell in ("dash", "bash"):
            self.assertEqual(self.output(shell, "-c", script).split(),
                             ["roce0", "verbena0", "1.2.3"])

    def test_python(self):
        code = ("import os, glob, stat, select\n"
                "print(sorted(os.listdir('/sys/class/infiniband')))\n"
                "print(len(glob.glob('/sys/class/infiniband/*/ports/*/state')))\n"
                "s = os.stat('/dev/infiniband/uverbs193')\n"
                "print(stat.S_ISCHR(s.st_mode), os.major(s.st_rdev), os.minor(s.st_rdev))\n"
                "print(sum(len(f) for _, _, f in os.walk('/sys/class/infiniband_verbs')))\n")
        self.assertEqual(self.python(code).splitlines(),
                         ["['roce0', 'verbena0']", "2", "True 231 385", "7"])

    def test_counters_are_brought_up_to_date(self):
        path = DEVICE + "/ports/1/counters/port_xmit_packets"
        self.assertEqual(self.output("cat", path, path), "1\n2\n")

    def test_identity_stamp_is_constant(self):
        code = ("import os, time\n"
                "paths = ['/sys/class/infiniband', '/sys/class/infiniband/verbena0']\n"
                "a = [os.stat(p).st_mtime_ns for p in paths]\n"
                "open('/sys/class/infiniband/verbena0/ports/1/counters/port_xmit_packets').read()\n"
                "assert a == [os.stat(p).st_mtime_ns for p in paths]\n")
        self.python(code)

    # -- foreign devices -----------------------------------------------------------------------

    def test_foreign_entries_stay(self):
        root = self.make_foreign_device()
        keywords = {"VERBENA_PRELOAD_REAL_ROOT": root}
        listed = self.output("ls", "/sys/class/infiniband", **keywords).split()
        self.assertEqual(listed, ["foreign0", "roce0", "verbena0"])
        self.assertEqual(
            self.output("ls", "/sys/class/infiniband_verbs", **keywords).split(),
            ["abi_version", "uverbs0", "uverbs192", "uverbs193"])
        # The listing leads to the real files and to the shadow's.
        text = self.output("sh", "-c", "cd /sys/class/infiniband && cat */fw_ver", **keywords)
        self.assertEqual(text, "foreign\n1.2.3\n1.2.3\n")
        target = self.output("sh", "-c", "cd /sys/class/infiniband && readlink foreign0",
                             **keywords)
        self.assertEqual(target.strip(), os.path.join(root, "sys/class/infiniband/foreign0"))

    def test_foreign_listing_is_made_once(self):
        root = self.make_foreign_device()
        code = ("import os\n"
                "s = os.stat('/sys/class/infiniband')\n"
                "print(s.st_ino, s.st_mtime_ns)\n")
        first = self.python(code, VERBENA_PRELOAD_REAL_ROOT=root)
        self.assertEqual(first, self.python(code, VERBENA_PRELOAD_REAL_ROOT=root))
        os.makedirs(os.path.join(root, "sys/class/infiniband/foreign1"))
        self.assertNotEqual(first, self.python(code, VERBENA_PRELOAD_REAL_ROOT=root))
        self.assertIn("foreign1", self.output("ls", "/sys/class/infiniband",
                                              VERBENA_PRELOAD_REAL_ROOT=root))

    def test_foreign_listing_made_by_many_at_once(self):
        root = self.make_foreign_device()
        env = self.environment(VERBENA_PRELOAD_REAL_ROOT=root)
        running = [subprocess.Popen(["ls", "/sys/class/infiniband"], env=env, text=True,
                                    stdout=subprocess.PIPE) for _ in range(20)]
        for one in running:
            self.assertEqual(one.communicate()[0].split(), ["foreign0", "roce0", "verbena0"])
        made = os.listdir(os.path.join(self.runtime, "shadow/union"))
        self.assertEqual(len(made), 1)

    def test_foreign_name_wins(self):
        root = self.make_foreign_device()
        shutil.copytree(os.path.join(root, "sys/class/infiniband/foreign0"),
                        os.path.join(root, "sys/class/infiniband/verbena0"))
        text = self.output("sh", "-c", "cd /sys/class/infiniband && cat verbena0/fw_ver",
                           VERBENA_PRELOAD_REAL_ROOT=root)
        self.assertEqual(text, "foreign\n")
        # This path is not redirected: the real kernel has no such device.
        done = self.run_program("cat", DEVICE + "/fw_ver", VERBENA_PRELOAD_REAL_ROOT=root)
        self.assertIn("No such file", done.stderr)

    def test_foreign_files_are_not_redirected(self):
        root = self.make_foreign_device()
        done = self.run_program("cat", "/sys/class/infiniband/foreign0/fw_ver",
                                VERBENA_PRELOAD_TRACE="1", VERBENA_PRELOAD_REAL_ROOT=root)
        self.assertNotIn("verbena-preload", done.stderr)

    def rdma_with_fake_kernel(self, *arguments):
        return self.output_with_fake_kernel("rdma", *arguments).splitlines()

    def test_kernel_devices_come_first_in_netlink(self):
        lines = self.rdma_with_fake_kernel("dev")
        self.assertEqual([line.split()[1] for line in lines], ["foreign0:", "verbena0:", "roce0:"])
        lines = self.rdma_with_fake_kernel("link")
        self.assertEqual([line.split()[1] for line in lines],
                         ["foreign0/1", "verbena0/1", "roce0/1"])
        self.assertIn("foreign0", "".join(self.rdma_with_fake_kernel("res")))
        self.assertEqual(len(self.rdma_with_fake_kernel("res", "show", "qp")), 2 * 120)

    def test_kernel_devices_without_an_emulator(self):
        self.stop_emulator()
        lines = self.rdma_with_fake_kernel("dev")
        self.assertEqual([line.split()[1] for line in lines], ["foreign0:"])

    # -- what is passed on ---------------------------------------------------------------------

    def test_trace_is_silent_about_others(self):
        code = ("import os, socket, subprocess\n"
                "open('/etc/passwd').read(); os.listdir('/sys/class')\n"
                "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).bind((0, 0))\n"
                "subprocess.run(['true'])\n")
        done = self.run_program(sys.executable, "-c", code, VERBENA_PRELOAD_TRACE="1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_netlink_messages_of_strangers_are_dropped(self):
        code = ("import socket, struct\n"
                "rdma = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20)\n"
                "rdma.bind((0, 0))\n"
                "other = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 2)\n"
                "other.sendto(b'x' * 32, (rdma.getsockname()[0], 0))\n"
                "rdma.send(struct.pack('=IHHII', 16, 0x1401, 0x301, 7, 0))\n"
                "assert b'verbena0' in rdma.recv(8192)\n")
        self.python(code)

    def test_setuid_programs_see_nothing(self):
        if os.geteuid() != 0:
            self.assertNotIn("verbena", self.run_program("su", "--version",
                                                         VERBENA_PRELOAD_TRACE="1").stderr)
            return
        os.chmod(self.top, 0o755)
        program = os.path.join(self.top, "cat")
        shutil.copy(shutil.which("cat"), program)
        os.chown(program, 65534, 65534)
        os.chmod(program, 0o4755)
        self.assertNotEqual(self.run_program(program, DEVICE + "/fw_ver").returncode, 0)

    def test_few_descriptors(self):
        text = self.output("sh", "-c", "ulimit -n 16; ls /sys/class/infiniband; rdma dev")
        self.assertIn("verbena0", text)
        done = self.run_program("sh", "-c", "ulimit -n 4; exec rdma dev")
        self.assertIsNotNone(done.returncode)  # whatever the program prints, it ends

    def test_other_users_runtime_directory_is_not_trusted(self):
        os.chmod(self.runtime, 0o755)
        done = self.run_program("ls", "/sys/class/infiniband")
        self.assertIn("No such file", done.stderr)

    # -- death ---------------------------------------------------------------------------------

    def test_open_after_death_ends_at_once(self):
        """libibverbs must not wait for a device that was listed and then lost."""
        code = ("import os, sys, time, stat, socket\n"
                "os.listdir('/dev/infiniband')\n"
                "print('listed', flush=True)\n"
                "sys.stdin.readline()\n"
                "fd = os.open('/dev/infiniband/uverbs192', os.O_RDWR)\n"
                "print(socket.socket(fileno=fd).recv(1))\n")
        child = subprocess.Popen([sys.executable, "-c", code], env=self.environment(), text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(child.stdout.readline(), "listed\n")
        self.stop_emulator()
        self.assertEqual(child.communicate("go\n", timeout=30)[0], "b''\n")

    def test_dead_emulator_has_no_devices(self):
        self.emulator.send_signal(signal.SIGKILL)
        self.emulator.wait()
        self.assertTrue(os.path.exists(os.path.join(self.runtime, "shadow")))
        self.assertNotIn("verbena0", self.run_program("rdma", "dev").stdout)
        self.assertIn("No such file", self.run_program("ls", "/sys/class/infiniband").stderr)
        self.assertIn("No such file", self.run_program("cat", DEVICE + "/fw_ver").stderr)
        self.assertEqual(self.run_program("ibstat", "-l").stdout.split(), [])

    def test_death_and_return_in_one_process(self):
        code = ("import os, sys\n"
                "def seen(): print(os.path.exists('/sys/class/infiniband/verbena0'), flush=True)\n"
                "seen()\n"
                "for _ in sys.stdin: seen()\n")
        child = subprocess.Popen([sys.executable, "-c", code], env=self.environment(), text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(child.stdout.readline(), "True\n")
        self.stop_emulator()
        end = time.monotonic() + 30  # the library takes an emulator that it has seen alive as alive for a moment
        while True:
            child.stdin.write("\n")
            child.stdin.flush()
            if child.stdout.readline() == "False\n":
                break
            self.assertLess(time.monotonic(), end, "the dead emulator is still seen")
        self.start_emulator()
        self.assertEqual(child.communicate("\n")[0], "True\n")


class WithTheRealEmulator(PreloadTest):
    def setUp(self):
        super().setUp()
        pid = os.getpid()
        ready, told = os.pipe()
        self.emulator = subprocess.Popen(
            [DAEMON, "--runtime-dir", self.runtime, "--ready-fd", str(told), "--fabric",
             f"127.{100 + pid % 100}.{pid // 100 % 256}.0/24"],
            pass_fds=[told], stdout=subprocess.PIPE, text=True)
        os.close(told)
        os.read(ready, 1)
        os.close(ready)

    def test_tools(self):
        self.assertIn("verbena0: node_type ca", self.output("rdma", "dev"))
        self.assertIn("link verbena0/1 subnet_prefix fe80", self.output("rdma", "link"))
        self.assertIn("verbena0: pd 0 cq 0 qp 0", self.output("rdma", "res"))
        self.assertIn("Physical state: LinkUp", self.output("ibstat", "verbena0"))
        self.assertIn("Infiniband device 'verbena0'", self.output("ibstatus"))

    def test_libibverbs_lists_both_beside_a_kernel_device(self):
        """A driver number makes libibverbs look through every provider's match table."""
        listed = self.output_with_fake_kernel("ibv_devices", RDMAV_DRIVERS=PLUGIN)
        self.assertEqual(sorted(line.split()[0] for line in listed.splitlines()[2:]),
                         ["foreign0", "verbena0"])

    def test_nodes_agree_with_the_shadow_of_sysfs(self):
        code = ("import os\n"
                "s = os.fstat(os.open('/dev/infiniband/uverbs192', os.O_RDWR))\n"
                "text = open('/sys/class/infiniband_verbs/uverbs192/dev').read().strip()\n"
                "print(text == f'{os.major(s.st_rdev)}:{os.minor(s.st_rdev)}')\n")
        self.assertEqual(self.python(code), "True\n")

    def test_identity_stamp_survives_counters(self):
        code = ("import os\n"
                "a = os.stat('/sys/class/infiniband/verbena0').st_mtime_ns\n"
                "d = '/sys/class/infiniband/verbena0/ports/1/counters/'\n"
                "for f in os.listdir(d): open(d + f).read()\n"
                "print(a == os.stat('/sys/class/infiniband/verbena0').st_mtime_ns)\n")
        self.assertEqual(self.python(code), "True\n")

    def test_event_channel(self):
        self.output(os.path.join(BIN, "preload_probe_plain"), "--channel")


if not DAEMON:
    del WithTheRealEmulator


class WithoutEmulator(PreloadTest):
    def test_nothing_is_there(self):
        self.assertIn("No such file", self.run_program("ls", "/sys/class/infiniband").stderr)
        self.assertIn("NETLINK_RDMA", self.run_program("rdma", "dev").stderr)

    def test_an_emulator_that_does_not_answer(self):
        self.start_emulator("--deaf")
        begin = time.monotonic()
        self.assertEqual(self.run_program("rdma", "dev").stdout, "")
        self.assertLess(time.monotonic() - begin, 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
