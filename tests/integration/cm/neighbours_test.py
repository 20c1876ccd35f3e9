# SPDX-License-Identifier: BSD-2-Clause
"""Resolves addresses whose neighbour answers or does not, in a network namespace, behind an interface that has nothing
at its other end.

    neighbours_test.py BIN PROGRAM
"""

import errno
import json
import os
import subprocess
import sys
import time
import unittest

from rdma_processes import EmulatorTest

INSIDE = "VERBENA_TEST_NAMESPACE"
# Resolves the address by many IDs at once, and awaits what becomes of them.
MANY = """
import sys
from rdma_cm_channel import *
channel = Channel()
for uid in range(1, 301):
    channel.resolve_addr(channel.create(uid), sys.argv[1], 1)
print("resolving", flush=True)
print({(event.type, event.status) for event in (channel.event() for _ in range(300))})
"""


def ip(words):
    subprocess.run(["ip", *words.split()], check=True)


class NeighboursTest(EmulatorTest):
    PERSONA = "roce"

    def options(self):
        return ["--roce", "10.77.0.1"]

    def output(self, *words):
        return subprocess.run([os.path.join(self.BIN, "verbena"), *words], check=True, timeout=self.LIMIT,
                              capture_output=True, text=True).stdout

    def resolve(self, address):
        program = self.start(PROGRAM, "resolve", address)
        self.assertEqual(program.wait(), (0, "done"), program.lines())
        return program.lines()[0]

    def test_nobody_answers(self):
        self.assertEqual(self.resolve("10.77.0.9"), f"RDMA_CM_EVENT_ADDR_ERROR {-errno.ETIMEDOUT}")

    def processor_time(self):
        """Returns how many seconds the emulator has computed."""
        with open(f"/proc/{self.daemon.pid}/stat", encoding="utf-8") as stat:
            user, system = stat.read().rsplit(") ", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def test_many_wait_for_the_same_neighbour(self):
        """They cost little more than one, and each of them is told."""
        os.environ["PYTHONPATH"] = os.path.dirname(os.path.abspath(__file__))
        program = self.start(sys.executable, "-B", "-c", MANY, "10.77.0.6")
        program.expect("resolving")
        before = self.processor_time()
        address_error = 1
        self.assertEqual(program.wait(), (0, str({(address_error, -errno.ETIMEDOUT)})))
        self.assertLess(self.processor_time() - before, 0.4)

    def test_an_id_that_waits_for_the_answer(self):
        """`verbena status` shows the ID. It belongs to no device yet, so `rdma` does not show it."""
        program = self.start(PROGRAM, "resolve", "10.77.0.7")
        deadline = time.monotonic() + self.LIMIT
        # librdmacm makes other IDs before, to find out what there is.
        while not (ids := json.loads(self.output("status", "--json"))["cm_ids"]) or ids[0]["state"] != "ADDR_QUERY":
            self.assertLess(time.monotonic(), deadline, ids)
        self.assertIsNone(ids[0]["device"])
        self.assertRegex(ids[0]["destination"], r"^10\.77\.0\.7:")
        self.assertEqual(json.loads(self.output("run", "--", "rdma", "-j", "resource", "show", "cm_id")), [])
        self.assertEqual(program.wait(), (0, "done"), program.lines())

    def test_a_neighbour_is_known(self):
        self.assertEqual(self.resolve("10.77.0.2"), "RDMA_CM_EVENT_ADDR_RESOLVED 0")

    def test_a_gateway_is_asked_for_what_lies_behind(self):
        ip("route add 10.78.0.0/24 via 10.77.0.2")
        ip("route add 10.79.0.0/24 via 10.77.0.8")
        self.assertEqual(self.resolve("10.78.0.5"), "RDMA_CM_EVENT_ADDR_RESOLVED 0")
        self.assertEqual(self.resolve("10.79.0.5"), f"RDMA_CM_EVENT_ADDR_ERROR {-errno.ETIMEDOUT}")

    def test_the_host_itself_is_not_asked(self):
        self.assertEqual(self.resolve("10.77.0.1"), "RDMA_CM_EVENT_ADDR_RESOLVED 0")
        self.assertEqual(self.resolve("127.0.0.1"), "RDMA_CM_EVENT_ADDR_RESOLVED 0")


if __name__ == "__main__":
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "yes"
        os.execvp("unshare", ["unshare", "-n" if os.geteuid() == 0 else "-Urn", sys.executable, "-B", *sys.argv])
    ip("link set lo up")
    ip("link add v0 type veth peer name v1")
    ip("address add 10.77.0.1/24 dev v0")
    ip("link set v0 up")
    ip("link set v1 up")
    ip("neighbour add 10.77.0.2 lladdr 02:00:00:00:00:02 dev v0")
    EmulatorTest.BIN, PROGRAM = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0]], verbosity=2)
