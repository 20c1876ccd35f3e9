# SPDX-License-Identifier: BSD-2-Clause
"""Programs in network namespaces of their own, as in containers, on one emulator in a third namespace. What goes by UDP
is sent from the emulator's namespace, because only that one has the devices' addresses.

    namespaces_test.py BIN
"""

import os
import random
import subprocess
import sys
import unittest

import pairs
from pairs import LIMIT, Pairs

EMULATOR, SERVER, CLIENT = range(3)


class NamespacesTest(Pairs):
    """A wire between the namespaces of the programs carries their TCP connection. None leads to the emulator's
    namespace."""

    devices = ["--roce", "10.20.30.1", "--roce", "fd00:20:30::1", "--device", "roce4", "--device", "roce6", "--device", "ib"]

    @classmethod
    def setUpClass(cls):
        cls.rooms = [subprocess.Popen(["unshare", "-n", "sh", "-c", "echo there; exec sleep infinity"],
                                      stdout=subprocess.PIPE, text=True) for _ in range(3)]
        for room in cls.rooms:
            room.stdout.readline()
        for room in range(3):
            cls.ip(room, "link", "set", "lo", "up")
        cls.ip(EMULATOR, "address", "add", "10.20.30.1/32", "dev", "lo")
        cls.ip(EMULATOR, "address", "add", "fd00:20:30::1/128", "dev", "lo", "nodad")
        cls.ip(SERVER, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns",
               str(cls.rooms[CLIENT].pid))
        for room in (SERVER, CLIENT):
            cls.ip(room, "address", "add", f"10.11.12.{room}/24", "dev", "wire")
            cls.ip(room, "link", "set", "wire", "up")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        for room in cls.rooms:
            room.kill()
            room.wait()
            room.stdout.close()

    @classmethod
    def within(cls, room):
        return ["nsenter", "-t", str(cls.rooms[room].pid), "-n"]

    @classmethod
    def ip(cls, room, *words):
        subprocess.run([*cls.within(room), "ip", *words], check=True, timeout=LIMIT)

    @classmethod
    def verbena(cls, *words):
        return subprocess.run([*cls.within(EMULATOR), pairs.BIN + "/verbena", *words],
                              env=cls.env, capture_output=True, text=True, timeout=LIMIT, check=False)

    def apart(self, link, program, *options, client=()):
        """Runs a server and its client, each in its namespace, until both end well."""
        port = str(random.randrange(20000, 32000))
        server = self.start(link, [program, *options, "-p", port], within=self.within(SERVER))
        self.until(lambda: pairs.listens(port, server.pid) or server.poll() is not None,
                   "the server does not listen")
        return self.ends_well(server, self.start(link, [program, *options, "-p", port, *client],
                                                 within=self.within(CLIENT)))

    def over_tcp(self, link, program, *options):
        return self.apart(link, program, *options, client=["10.11.12.1"])

    def test_pingpongs(self):
        for mode in ([], ["-e"], ["-c", "-s", "65536"]):
            self.over_tcp("udp", "ibv_rc_pingpong", "-d", "ib", "-n", "200", *mode)
        self.over_tcp("udp", "ibv_ud_pingpong", "-d", "ib", "-n", "200")
        self.over_tcp("shm", "ibv_rc_pingpong", "-d", "ib", "-n", "200", "-c")

    def test_roce(self):
        for device in ("roce4", "roce6"):
            for program in ("ibv_rc_pingpong", "ibv_ud_pingpong"):
                self.over_tcp("udp", program, "-d", device, "-g", "0", "-n", "200")

    def test_perftest(self):
        for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
            self.over_tcp("udp", program, "-d", "ib", "-F", "-n", "500", "-q", "4")
        self.over_tcp("udp", "ib_send_lat", "-d", "roce4", "-F", "-n", "500")

    def test_rdma_cm(self):
        for address in (self.fabric.replace(".0/24", ".1"), "10.20.30.1", "fd00:20:30::1"):
            self.rping("udp", "-a", address, "-S", "10000", "-V", count=50, within=(self.within(SERVER), self.within(CLIENT)))


if __name__ == "__main__":
    if os.geteuid() != 0:
        os.execvp("unshare", ["unshare", "-Urn", sys.executable, "-B", *sys.argv])
    pairs.BIN = sys.argv.pop(1)
    unittest.main()
