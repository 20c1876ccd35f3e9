"""Programs of rdma-core and perftest over each link: which one carries them, that `verbena status`
says so, and that a peer that is killed or lies harms nobody else.

    links_test.py BIN
"""

import ctypes
import json
import mmap
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

LIMIT = 30
BIN = None


def listens(port):
    """Whether any process listens on this TCP port, without connecting to it."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as lines:
            for line in list(lines)[1:]:
                words = line.split()
                if words[3] == "0A" and words[1].endswith(wanted):
                    return True
    return False


class LinksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="verbena-links-")
        cls.env = {k: v for k, v in os.environ.items()
                   if k not in ("LD_PRELOAD", "RDMAV_DRIVERS", "VERBENA_LOG", "VERBENA_LINK",
                                "VERBENA_DIRECT")}
        cls.env["VERBENA_RUNTIME_DIR"] = cls.dir + "/run"
        for _ in range(20):
            fabric = f"127.{random.randrange(64, 250)}.{random.randrange(1, 250)}.0/24"
            up = cls.verbena("up", "--fabric", fabric)
            if up.returncode == 0:
                return
        raise RuntimeError(up.stderr)

    @classmethod
    def tearDownClass(cls):
        cls.verbena("down")
        shutil.rmtree(cls.dir, ignore_errors=True)

    def setUp(self):
        self.started = []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()

    @classmethod
    def verbena(cls, *words):
        return subprocess.run([BIN + "/verbena", *words], env=cls.env, capture_output=True,
                              text=True, timeout=LIMIT, check=False)

    def start(self, link, command, direct="on", before=None):
        process = subprocess.Popen([BIN + "/verbena", "run", "--", *command],
                                   env=dict(self.env, VERBENA_LINK=link, VERBENA_DIRECT=direct),
                                   text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   preexec_fn=before)
        self.started.append(process)
        return process

    def pair(self, link, *command, direct=("on", "on"), before=(None, None)):
        """Server and client of one program, started."""
        port = random.randrange(20000, 32000)
        command = [*command, "-p", str(port)]
        server = self.start(link, command, direct[0], before[0])
        self.until(lambda: listens(port) or server.poll() is not None, "the server does not listen")
        return server, self.start(link, [*command, "127.0.0.1"], direct[1], before[1])

    def end(self, processes):
        for process in processes:
            process.kill()
            process.communicate()

    def until(self, condition, what):
        """Waits for another process to have done something that sends no word."""
        end = time.monotonic() + LIMIT
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)

    def ends_well(self, *processes):
        texts = [p.communicate(timeout=LIMIT)[0] for p in processes]
        for process, text in zip(processes, texts):
            self.assertEqual(process.returncode, 0, text)
        return texts

    def device(self):
        done = self.verbena("status", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["devices"][0]

    def links(self, type_="RC"):
        return [qp["link"] for context in self.device()["contexts"] for qp in context["qps"]
                if qp["type"] == type_ and qp["state"] in ("RTR", "RTS")]

    def ring_packets(self):
        return self.device()["ports"][0]["counters"]["shared_ring_packets"]

    def test_pingpongs_over_udp(self):
        before = self.ring_packets()
        for mode in ([], ["-e"], ["-c", "-s", "65536"]):
            self.ends_well(*self.pair("udp", "ibv_rc_pingpong", "-n", "200", *mode))
        self.assertEqual(self.ring_packets(), before)

    def test_pingpongs_over_rings(self):
        for mode in ([], ["-e"], ["-c", "-s", "65536"]):
            before = self.ring_packets()
            self.ends_well(*self.pair("shm", "ibv_rc_pingpong", "-n", "500", *mode))
            self.assertGreater(self.ring_packets(), before, mode)
        for program in ("ibv_uc_pingpong", "ibv_srq_pingpong"):
            self.ends_well(*self.pair("auto", program, "-n", "200"))

    def test_who_sends_nothing_has_no_ring(self):
        """Two that have connected: none before the first post, one for what follows."""
        sides = [subprocess.Popen([BIN + "/verbena", "run", "--", BIN + "/steps", "-n", "500", "-s", "connected", side],
                                  env=self.env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                 for side in ("server", "client")]
        self.started += sides
        addresses = [side.stdout.readline().split(maxsplit=1)[1] for side in sides]
        for side, peer in zip(sides, reversed(addresses)):
            side.stdin.write(peer)
            side.stdin.flush()
            self.assertEqual(side.stdout.readline(), "at connected\n")
        self.assertEqual(self.links(), ["udp", "udp"])
        for side in sides:
            self.assertNotIn("verbena-ring", pathlib.Path(f"/proc/{side.pid}/maps").read_text())
        before = self.ring_packets()
        for side in sides:
            side.stdin.write("\n")
            side.stdin.flush()
        for side in sides:
            self.assertEqual(side.communicate(timeout=LIMIT)[0], "end ok\n")
        self.assertGreater(self.ring_packets(), before)

    def test_status_names_the_link(self):
        for link, word in (("udp", "udp"), ("shm", DIRECT), ("auto", DIRECT)):
            processes = self.pair(link, "ib_write_bw", "-F", "-D", "20")
            self.until(lambda w=word: self.links() == [w, w], f"{link}: {self.links()}")
            self.end(processes)

    def test_either_side_can_keep_payloads_in_the_ring(self):
        for direct in (("off", "on"), ("on", "off")):
            processes = self.pair("auto", "ib_write_bw", "-F", "-D", "20", direct=direct)
            self.until(lambda: self.links() == ["ring", "ring"], f"{direct}: {self.links()}")
            self.end(processes)
            self.ends_well(*self.pair("auto", "ibv_rc_pingpong", "-c", "-s", "300000", "-n", "50",
                                      direct=direct))

    def test_large_messages_arrive_whole(self):
        for mode in (["-s", "16384"], ["-s", "65537"], ["-s", "1048576", "-e"],
                     ["-s", "3000001", "-m", "1024"], ["-s", "1048577", "-m", "256"]):
            self.ends_well(*self.pair("auto", "ibv_rc_pingpong", "-c", "-n", "50", *mode))
        self.ends_well(*self.pair("auto", "ibv_srq_pingpong", "-s", "100000", "-n", "50"))
        for test in ("ib_write_bw", "ib_send_bw", "ib_read_bw"):
            self.ends_well(*self.pair("auto", test, "-F", "-a", "-n", "50"))

    def test_large_reads_arrive_whole(self):
        # The server READs what the client compares with what it WRITEs back.
        port = str(random.randrange(20000, 32000))
        common = ["-a", "127.0.0.1", "-p", port, "-C", "50", "-S", "65000", "-V"]
        server = self.start("auto", ["rping", "-s", *common])
        self.until(lambda: self.start("auto", ["rping", "-c", *common]).wait(LIMIT) == 0,
                   "no client ended well")
        self.ends_well(server)

    def test_who_may_not_read_the_other_reads_rings(self):
        bandwidth, pingpong = shutil.which("ib_write_bw"), shutil.which("ibv_rc_pingpong")
        if os.geteuid() == 0:
            # One that lacks a right of the other may not read it; the other way round it may.
            restrained, links = (without_trace, None), [DIRECT, "ring"]
        else:
            # A program that nobody may read is not dumpable, so neither reads the other.
            restrained, links = (None, None), ["ring", "ring"]
            bandwidth, pingpong = self.unreadable(bandwidth), self.unreadable(pingpong)
        processes = self.pair("auto", bandwidth, "-F", "-D", "20", before=restrained)
        self.until(lambda: sorted(self.links()) == links, f"{self.links()}")
        self.end(processes)
        self.ends_well(*self.pair("auto", pingpong, "-c", "-s", "300000", "-n", "50",
                                  before=restrained))

    def unreadable(self, program):
        copy = self.dir + "/" + os.path.basename(program)
        shutil.copy(program, copy)
        os.chmod(copy, 0o111)
        return copy

    def test_captures_and_faults_see_whole_packets(self):
        processes = self.pair("auto", "ib_write_bw", "-F", "-D", "20")
        self.until(lambda: self.links() == [DIRECT, DIRECT], f"{self.links()}")
        for words, link in ((["--loss", "0.1%"], "ring"), (["--clear"], DIRECT)):
            done = self.verbena("fault", *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.until(lambda w=link: self.links() == [w, w], f"{words}: {self.links()}")
        file = self.dir + "/packets.pcapng"
        capture = subprocess.Popen([BIN + "/verbena", "capture", file], env=self.env,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.started.append(capture)
        self.until(lambda: self.links() == ["ring", "ring"], f"capture: {self.links()}")
        capture.send_signal(signal.SIGINT)
        capture.wait(LIMIT)
        self.until(lambda: self.links() == [DIRECT, DIRECT], f"{self.links()}")
        self.end(processes)

    def test_another_word_means_auto(self):
        server, client = self.pair("mail", "ibv_rc_pingpong", "-n", "100")
        for text in self.ends_well(server, client):
            self.assertEqual(text.count("VERBENA_LINK=mail is none of udp, shm and auto"), 1, text)

    def test_a_killed_peer_harms_nobody(self):
        bystanders = self.pair("auto", "ib_write_bw", "-F", "-D", "10")
        for victim in (0, 1):
            processes = self.pair("auto", "ib_write_bw", "-F", "-D", "20")
            self.until(lambda: self.links().count(DIRECT) == 4, f"no rings: {self.links()}")
            processes[victim].send_signal(signal.SIGKILL)
            survivor = processes[1 - victim]
            # It is told by its TCP connection or by its queue pair; what counts is that it ends.
            survivor.communicate(timeout=LIMIT)
            self.assertNotEqual(survivor.returncode, 0)
            processes[victim].communicate()
        self.ends_well(*bystanders)

    def test_garbage_in_the_rings_harms_nobody(self):
        bystanders = self.pair("auto", "ib_write_bw", "-F", "-D", "8")
        victims = self.pair("auto", "ib_write_bw", "-F", "-D", "20")
        self.until(lambda: self.links().count(DIRECT) == 4, f"no rings: {self.links()}")
        spoil_rings(victims[0].pid)
        self.until(lambda: "udp" in self.links() or victims[1].poll() is not None,
                   "the rings live on")
        for process in victims:
            process.kill()
            process.communicate()
        self.ends_well(*bystanders)
        self.ends_well(*self.pair("auto", "ibv_rc_pingpong", "-c", "-n", "100"))


def siblings_may_be_read():
    """Whether the system lets one process of this user read another, as large payloads want it."""
    asks = """
import ctypes, sys
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
room = ctypes.create_string_buffer(8)
here, there = Vector(ctypes.addressof(room), 8), Vector(int(sys.argv[2], 16), 8)
read = ctypes.CDLL(None, use_errno=True).process_vm_readv
read.restype = ctypes.c_ssize_t
sys.exit(read(int(sys.argv[1]), ctypes.byref(here), 1, ctypes.byref(there), 1, 0) != 8)
"""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as sibling:
        mapped = pathlib.Path(f"/proc/{sibling.pid}/maps").read_text().split("-", 1)[0]
        done = subprocess.run([sys.executable, "-c", asks, str(sibling.pid), mapped], check=False)
        sibling.kill()
    return done.returncode == 0


# How status calls the link of processes on one host.
DIRECT = "direct" if siblings_may_be_read() else "ring"


def without_trace():
    """For a new process: whoever lets go of this right may not read those that have it."""
    if ctypes.CDLL(None).prctl(24, 19, 0, 0, 0) != 0:  # PR_CAPBSET_DROP, CAP_SYS_PTRACE
        raise OSError("PR_CAPBSET_DROP")


def spoil_rings(pid):
    """Writes over all rings that a process has mapped, as that process itself could."""
    found = 0
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "r+b", 0) as memory:
        for line in maps:
            place = re.match(r"([0-9a-f]+)-([0-9a-f]+) .*memfd:verbena-ring", line)
            if place:
                begin, end = (int(x, 16) for x in place.groups())
                memory.seek(begin + mmap.PAGESIZE // 64)
                memory.write(os.urandom(end - begin - mmap.PAGESIZE // 64))
                found += 1
    if found == 0:
        raise RuntimeError("no rings to spoil")


if __name__ == "__main__":
    BIN = sys.argv.pop(1)
    unittest.main()
