# SPDX-License-Identifier: BSD-2-Clause
"""Programs of rdma-core and perftest over each link: which link carries them, that `verbena status` shows it, and that
a peer that is killed or lies harms no other program.

    links_test.py BIN
"""

import mmap
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import time
import unittest

import pairs
from pairs import LIMIT, Pairs


class LinksTest(Pairs):
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
        # A ring comes after the first post. On a loaded machine UDP carries many rounds until then.
        for mode in (["-n", "5000"], ["-n", "5000", "-e"], ["-n", "500", "-c", "-s", "65536"]):
            before = self.ring_packets()
            said = self.ends_well(*self.pair("shm", "ibv_rc_pingpong", *mode))
            self.assertGreater(self.ring_packets(), before, "\n".join([*mode, *said]))
        for program in ("ibv_uc_pingpong", "ibv_srq_pingpong"):
            self.ends_well(*self.pair("auto", program, "-n", "200"))

    def test_who_sends_nothing_has_no_ring(self):
        """Two connected programs have no ring before the first post, and have one for what follows."""
        sides = [subprocess.Popen([pairs.BIN + "/verbena", "run", "--", pairs.BIN + "/steps", "-n", "20000", "-s", "connected", side],
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
        for link, word in (("udp", "udp"), ("shm", "ring"), ("auto", "ring")):
            processes = self.pair(link, "ib_write_bw", "-F", "-D", "20")
            self.until(lambda w=word: self.links() == [w, w], f"{link}: {self.links()}")
            self.end(processes)

    def test_large_messages_arrive_whole(self):
        for mode in (["-s", "16384"], ["-s", "65537"], ["-s", "1048576", "-e"],
                     ["-s", "3000001", "-m", "1024"], ["-s", "1048577", "-m", "256"]):
            self.ends_well(*self.pair("auto", "ibv_rc_pingpong", "-c", "-n", "50", *mode))
        self.ends_well(*self.pair("auto", "ibv_srq_pingpong", "-s", "100000", "-n", "50"))
        for test in ("ib_write_bw", "ib_send_bw", "ib_read_bw"):
            self.ends_well(*self.pair("auto", test, "-F", "-a", "-n", "50"))

    def test_large_reads_arrive_whole(self):
        # The server READs the client's data and WRITEs it back, and the client compares both.
        self.rping("auto", "-a", "127.0.0.1", "-S", "65000", "-V", count=50)

    def test_captures_see_packets_as_a_network_carries_them(self):
        file = self.dir + "/packets.pcapng"
        capture = subprocess.Popen([pairs.BIN + "/verbena", "capture", file], env=self.env, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.started.append(capture)
        self.assertIn("Ctrl-C", capture.stderr.readline())
        processes = self.pair("shm", "ib_write_bw", "-F", "-D", "20", "-s", "65536", "-m", "1024")
        self.until(lambda: len(frame_lengths(file)) > 1000, "nothing is captured")
        self.end(processes)
        capture.send_signal(signal.SIGINT)
        capture.communicate(timeout=LIMIT)
        self.assertLess(max(frame_lengths(file)), 1024 + 100)

    def test_faults_come_and_go(self):
        for link in ("shm", "udp"):
            self.assertEqual(self.verbena("fault", "--loss", "100%").returncode, 0)
            server, client = self.pair(link, "ibv_rc_pingpong", "-n", "10")
            said = client.communicate(timeout=LIMIT)[0]
            self.assertNotEqual(client.returncode, 0, said)
            self.assertIn("transport retry counter exceeded", said)
            self.end([server])
            self.assertEqual(self.verbena("fault", "--clear").returncode, 0)
            self.ends_well(*self.pair(link, "ibv_rc_pingpong", "-n", "10"))

    def test_another_word_means_auto(self):
        server, client = self.pair("mail", "ibv_rc_pingpong", "-n", "100")
        for text in self.ends_well(server, client):
            self.assertEqual(text.count("VERBENA_LINK=mail is none of udp, shm and auto"), 1, text)

    def end_early(self, server, client):
        """Ends perftest early. SIGALRM is the clock of its -D: the measurement begins at the first and ends at the
        third."""
        self.assertIsNone(client.poll())
        self.until(lambda: client.poll() is not None or client.send_signal(signal.SIGALRM), "it goes on")
        self.ends_well(server, client)

    def test_a_killed_peer_harms_nobody(self):
        bystanders = self.pair("auto", "ib_write_bw", "-F", "-D", "20")
        for victim in (0, 1):
            processes = self.pair("auto", "ib_write_bw", "-F", "-D", "20")
            self.until(lambda: self.links().count("ring") == 4, f"no rings: {self.links()}")
            processes[victim].send_signal(signal.SIGKILL)
            survivor = processes[1 - victim]
            # The survivor learns of it by its TCP connection or by its queue pair. In either case it must end.
            survivor.communicate(timeout=LIMIT)
            self.assertNotEqual(survivor.returncode, 0)
            processes[victim].communicate()
        self.end_early(*bystanders)

    def test_a_peer_that_is_held_up_for_longer_than_the_retries_loses_nothing(self):
        """A scheduler may hold up a process like this, and with an adapter no peer would notice."""
        for link, program in (("auto", "ib_write_bw"), ("shm", "ib_send_bw")):
            server, client = self.pair(link, program, "-F", "-D", "4")
            self.until(lambda: self.links() == ["ring", "ring"], f"no rings: {self.links()}")
            server.send_signal(signal.SIGSTOP)
            time.sleep(1.5)
            server.send_signal(signal.SIGCONT)
            self.ends_well(server, client)

    def test_garbage_in_the_rings_harms_nobody(self):
        bystanders = self.pair("auto", "ib_write_bw", "-F", "-D", "20")
        victims = self.pair("auto", "ib_write_bw", "-F", "-D", "20")
        self.until(lambda: self.links().count("ring") == 4, f"no rings: {self.links()}")
        spoil_rings(victims[0].pid)
        self.until(lambda: "udp" in self.links() or victims[1].poll() is not None,
                   "the rings live on")
        for process in victims:
            process.kill()
            process.communicate()
        self.end_early(*bystanders)
        self.ends_well(*self.pair("auto", "ibv_rc_pingpong", "-c", "-n", "100"))


def frame_lengths(file):
    """Returns the lengths of the packets in a capture that may still grow."""
    content = pathlib.Path(file).read_bytes()
    lengths, at = [], 0
    while at + 12 <= len(content):
        kind, size = struct.unpack_from("<II", content, at)
        if kind == 6 and at + size <= len(content):  # an enhanced packet block
            lengths.append(struct.unpack_from("<I", content, at + 24)[0])
        at += size
    return lengths


def spoil_rings(pid):
    """Overwrites all rings that a process has mapped, as that process itself could."""
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
    pairs.BIN = sys.argv.pop(1)
    unittest.main()
