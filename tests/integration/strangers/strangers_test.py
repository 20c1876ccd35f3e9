#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Another user of the host attacks a live connection with guessed CM datagrams, injected packets and a flood.

    strangers_test.py BIN VICTIM [unittest arguments]
"""

import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import stranger
from stranger import Stranger, all_ways, as_nobody

BIN = VICTIM = None
LIMIT = 60
PORT = 7471
TCP_PORT_SPACE = 0x01060000


class End:
    """A process of the victim, whose lines the test awaits."""

    def __init__(self, env, words):
        self.process = subprocess.Popen([BIN + "/verbena", "run", "--", VICTIM, *words], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def line(self):
        return self.process.stdout.readline().strip()

    def tell(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def expect(self, word):
        line = self.line()
        if not line.startswith(word):
            raise AssertionError(f"'{line}', not '{word}'")
        return line

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class StrangersTest(unittest.TestCase):
    """The attacks on a fabric on the loopback interface, as by default."""

    LINK = None

    def setUp(self):
        self.dir = self.enterContext(tempfile.TemporaryDirectory(prefix="verbena-strangers-"))
        self.env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "RDMAV_DRIVERS", "VERBENA_LOG")}
        self.env["VERBENA_RUNTIME_DIR"] = self.dir + "/run"
        if self.LINK:
            self.env["VERBENA_LINK"] = self.LINK
        self.ends = []
        self.round = 0
        for _ in range(20):
            self.net = f"127.{random.randrange(64, 250)}.{random.randrange(1, 250)}"
            up = self.verbena("up", *self.options())
            if up.returncode == 0:
                break
        self.assertEqual(up.returncode, 0, up.stderr)
        self.addCleanup(self.verbena, "down")
        self.addCleanup(lambda: [end.end() for end in self.ends])
        self.address = f"{self.net}.1"

    def options(self):
        return ("--fabric", f"{self.net}.0/24")

    def verbena(self, *words):
        return subprocess.run([BIN + "/verbena", *words], env=self.env, capture_output=True, text=True, timeout=LIMIT,
                              check=False)

    def start(self, *words):
        self.ends.append(End(self.env, words))
        return self.ends[-1]

    def device(self):
        return json.loads(self.verbena("status", "--json").stdout)["devices"][0]

    def queue_pairs(self):
        return [qp for context in self.device()["contexts"] for qp in context["qps"]]

    # --- connections --------------------------------------------------------------------------

    def connect(self):
        """Connects by librdmacm. Returns the queue pair numbers of the two ends."""
        server = self.start("listen", str(PORT))
        server.expect("listening")
        client = self.start("connect", self.address, str(PORT))
        return [int(end.expect("connected").split()[1], 16) for end in (server, client)]

    def connect_by_hand(self):
        ends = [self.start("verbs"), self.start("verbs")]
        names = [end.expect("name").split()[1:] for end in ends]
        for end, name in zip(ends, reversed(names)):
            end.tell(" ".join(name))
        return [int(end.expect("connected").split()[1], 16) for end in ends]

    def exchange(self):
        """Sends a message each way, and asserts that no other message came between."""
        for end in self.ends:
            end.tell("go")
        for end in self.ends:
            end.expect(f"message {self.round}")
        self.round += 1

    # --- attacks ------------------------------------------------------------------------------

    def guess_connection_management(self, guid, qpns):
        """Sends guesses from each socket: the connection's peer asks for a new connection, ends this one or rejects it."""
        comm_id = 1000
        for way in all_ways(self.address):
            for qpn in qpns:
                for n in range(7):
                    comm_id += 1
                    way.send(stranger.cm_req(guid, (qpn + n) & 0xffffff, comm_id, TCP_PORT_SPACE | PORT, self.address,
                                             self.address), self.address)
            for n in range(7):
                way.send(stranger.cm_dreq(n, n + 1, qpns[n % 2]), self.address)
                way.send(stranger.cm_rej(0, n, 10), self.address)

    def inject(self, ways, qps):
        """Sends what each queue pair waits for: a SEND, and a NAK for its own request."""
        forgery = b"forged".ljust(64, b"\0")
        for way in ways:
            for qp in qps:
                qpn = int(qp["qpn"], 16)
                for psn in range(qp["receive_psn"] - 2, qp["receive_psn"] + 3):
                    way.send(stranger.send_only(qpn, psn, forgery), self.address)
                way.send(stranger.acknowledgement(qpn, qp["send_psn"], 0x63), self.address)

    def inject_as_nobody(self):
        """Injects packets as nobody, with all that the victim's own status tells."""
        qps = self.queue_pairs()
        self.assertEqual(len(qps), 2)
        as_nobody(lambda: self.inject(all_ways(self.address), qps))

    def source_ports(self):
        """Returns the ports of the sockets of the victim's device, except port 4791."""
        ports = set()
        for line in pathlib.Path("/proc/net/udp").read_text().splitlines()[1:]:
            address, port = line.split()[1].split(":")
            if bytes.fromhex(address)[::-1] == bytes(map(int, self.address.split("."))) and int(port, 16) != 4791:
                ports.add(int(port, 16))
        self.assertTrue(ports)
        return ports

    # --- tests --------------------------------------------------------------------------------

    def test_guessed_connection_management_ends_nothing(self):
        qpns = self.connect()
        guid = int(self.device()["node_guid"], 16)
        self.exchange()
        as_nobody(lambda: self.guess_connection_management(guid, qpns))
        self.exchange()

    def test_an_injected_send_arrives_nowhere(self):
        self.connect()
        self.exchange()
        self.inject_as_nobody()
        self.exchange()

    def test_nor_in_a_queue_pair_of_the_verbs_alone(self):
        self.connect_by_hand()
        self.inject_as_nobody()
        self.exchange()
        self.inject_as_nobody()
        self.exchange()

    def queued(self):
        """Returns how many bytes wait in the sockets of the data path at our address."""
        local = socket.inet_aton(self.address)[::-1].hex().upper() + ":12B7"
        rows = [line.split() for line in pathlib.Path("/proc/net/udp").read_text(encoding="utf-8").splitlines()]
        ours = [row[4] for row in rows if row[1] == local]
        self.assertNotEqual(ours, [])
        return sum(int(queues.split(":")[1], 16) for queues in ours)

    def test_a_flood_takes_no_room(self):
        """More unwanted packets come than a socket holds, while nobody reads. The packets of the peers still arrive."""
        qpns = self.connect()
        self.exchange()

        def flood():
            way = Stranger(stranger.OWN_ADDRESS, self.address)
            for n in range(20000):
                way.send(stranger.send_only(qpns[n % 2], n, b"x" * 1024), self.address)

        for end in self.ends:
            end.process.send_signal(signal.SIGSTOP)
        try:
            as_nobody(flood)
            self.assertEqual(self.queued(), 0)
        finally:
            for end in self.ends:
                end.process.send_signal(signal.SIGCONT)
        self.exchange()

    def test_its_source_ports_are_nobody_elses(self):
        self.connect()
        self.exchange()
        ports = self.source_ports()

        def attack():
            for port in ports:
                for address in (stranger.OWN_ADDRESS, self.address, "0.0.0.0"):
                    for option in (None, stranger.SO_REUSEPORT, stranger.SO_REUSEADDR):
                        if stranger.may_bind(address, port, option):
                            raise AssertionError(f"{address} port {port} with option {option}")

        as_nobody(attack)


class OnRings(StrangersTest):
    def test_not_even_a_packet_of_the_users_own_passes_by_a_ring(self):
        """The packets come from a port of the emulator's, which another program of its user may share."""
        self.connect()
        while not all(qp["link"].endswith("ring") for qp in self.queue_pairs()):
            self.exchange()
        self.exchange()
        self.inject([Stranger(self.address, port=port, shares=True) for port in self.source_ports()], self.queue_pairs())
        self.exchange()


class OverUdp(StrangersTest):
    LINK = "udp"

    def test_the_same_packets_from_the_peers_own_port_are_obeyed(self):
        """The SEND that a stranger injects is well formed, and only its source is wrong. From the port of the peer,
        which another program of the user may share, the same packet arrives."""
        self.connect_by_hand()
        self.exchange()
        self.inject_as_nobody()
        self.exchange()
        own = [Stranger(self.address, port=port, shares=True) for port in self.source_ports()]
        self.inject(own, self.queue_pairs())
        for end in self.ends:
            end.tell("go")
        self.assertEqual([end.line() for end in self.ends], ["failed: got 'forged'"] * 2)


class OnRoceDevice(OverUdp):
    """A RoCE device may have foreign peers, so packets from other addresses are accepted, and the queue pair's own
    checks decide. A stranger cannot send from the device's own address."""

    def options(self):
        return ("--roce", f"{self.net}.1")


# Only the subclasses run, because each says which link it uses.
del StrangersTest

if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: needs root, to become somebody else")
        sys.exit(77)
    BIN, VICTIM = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
