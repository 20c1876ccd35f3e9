# SPDX-License-Identifier: BSD-2-Clause
"""Provokes every event of rdma_cm with librdmacm: events_program.cpp on a real emulator.

    events_test.py BIN PROGRAM PERSONA     PERSONA: ib or roce
"""

import errno
import os
import subprocess
import sys
import unittest

from rdma_processes import EmulatorTest

DEVICE = "verbena0"
RESOLVED = ["RDMA_CM_EVENT_ADDR_RESOLVED 0", "RDMA_CM_EVENT_ROUTE_RESOLVED 0"]


class EventsTest(EmulatorTest):
    def sees(self, case, *events, meanwhile=None):
        """Asserts that the case ends well and sees these events, with their status."""
        program = self.start(PROGRAM, case)
        if meanwhile is not None:
            program.expect("ready")
            meanwhile()
            program.go_on()
        self.assertEqual(program.wait(), (0, "done"), program.lines())
        self.assertEqual([line for line in program.lines() if line.startswith("RDMA_CM_EVENT_")],
                         [event if " " in event else f"RDMA_CM_EVENT_{event} 0" for event in events])

    def port(self, what):
        return lambda: self.verbena("port", DEVICE, what)

    def test_from_request_to_the_end_of_timewait(self):
        self.sees("life", *RESOLVED, "CONNECT_REQUEST", "CONNECT_RESPONSE", "ESTABLISHED", "DISCONNECTED", "DISCONNECTED",
                  "TIMEWAIT_EXIT", "TIMEWAIT_EXIT")

    def test_established_on_both_sides_with_queue_pairs_of_the_library(self):
        self.sees("established", *RESOLVED, "CONNECT_REQUEST", "ESTABLISHED", "ESTABLISHED")

    def test_an_id_moves_to_another_channel_and_a_message_comes_first(self):
        self.sees("moved", *RESOLVED, "CONNECT_REQUEST", "CONNECT_RESPONSE", "ESTABLISHED")

    def test_type_of_service(self):
        self.sees("type_of_service", *RESOLVED, "CONNECT_REQUEST", "ESTABLISHED", "ESTABLISHED")
        said = [line for line in self.programs[-1].lines() if line.startswith("traffic class")]
        self.assertEqual(said, ["traffic class 0x68, path 0x68"] * 2)

    def test_connect_error(self):
        self.sees("connect_error", *RESOLVED, "CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_ERROR -1")

    def test_rejected_because_nobody_listens(self):
        self.sees("nobody_listens", *RESOLVED, "RDMA_CM_EVENT_REJECTED 8")

    def test_rejected_by_the_program(self):
        self.sees("rejected", *RESOLVED, "CONNECT_REQUEST", "RDMA_CM_EVENT_REJECTED 28")

    def test_unreachable(self):
        self.sees("unreachable", *RESOLVED, "RDMA_CM_EVENT_UNREACHABLE 1")

    def test_what_the_program_is_told(self):
        """The explanation says why there is no connection, and to which address."""
        for case, *said in (("nobody_listens", "the connection to 127.0.0.1:", "is rejected (status 8): nobody listens"),
                            ("rejected", "the connection to 127.0.0.1:", "is rejected (status 28): ", "rdma_reject"),
                            ("unreachable", "no connection to 127.0.0.1:", " (status 1): "),
                            ("too_much_data", "rdma_connect: ", "private_data_len be 56 at most", "; it is 57"),
                            ("disconnected_first", "rdma_disconnect: the ID must have been connected before"),
                            ("resolved_twice", "rdma_resolve_addr: the ID must not be resolved")):
            with self.subTest(case=case):
                done = subprocess.run([f"{self.BIN}/verbena", "run", "--", PROGRAM, case], capture_output=True, text=True,
                                      timeout=self.LIMIT, check=True)
                self.assertTrue(any(all(part in line for part in ("]: rdma_cm: ", *said)) for line in done.stderr.splitlines()),
                                done.stderr)

    def test_addr_error(self):
        self.sees("addr_error", f"RDMA_CM_EVENT_ADDR_ERROR {-errno.ENODEV}", meanwhile=self.port("down"))

    def test_addr_change(self):
        self.sees("addr_change", *RESOLVED, "CONNECT_REQUEST", "CONNECT_RESPONSE", "ESTABLISHED", "ADDR_CHANGE", "ADDR_CHANGE",
                  "ADDR_CHANGE", "DISCONNECTED", meanwhile=self.port("gid-change"))

    def test_nobody_has_the_address_of_a_group(self):
        for address, error in (("239.1.2.3", errno.EADDRNOTAVAIL), ("255.255.255.255", errno.EADDRNOTAVAIL),
                               ("127.3.2.1", 0), (self.address(), 0)):
            self.binds(address, error)

    def test_ipv6_addresses_that_nobody_has(self):
        """As Linux says: IPv4 within IPv6 is no interface's, and a link-local address without a scope is of no link."""
        for address, error in (("::ffff:127.0.0.1", errno.EADDRNOTAVAIL), (f"::ffff:{self.address()}", errno.EADDRNOTAVAIL),
                               ("fe80::1", errno.EINVAL), ("fe80::1%lo", errno.EADDRNOTAVAIL), ("::1", 0)):
            self.binds(address, error)

    def binds(self, address, error):
        last = "done" if error == 0 else f"failed: rdma_bind_addr: {os.strerror(error)}"
        self.assertEqual(self.start(PROGRAM, "bind", address).wait(), (0 if error == 0 else 1, last), address)

    def test_a_group_is_reached_from_the_device(self):
        program = self.start(PROGRAM, "resolve", "239.1.2.3")
        self.assertEqual(program.wait(), (0, "done"), program.lines())
        self.assertEqual(program.lines(), [RESOLVED[0], f"from {self.address()}", "done"])

    def test_multicast_join(self):
        self.sees("multicast", "MULTICAST_JOIN")

    def test_device_removal(self):
        self.sees("device_removal", *RESOLVED, "CONNECT_REQUEST", "DEVICE_REMOVAL", "DEVICE_REMOVAL", meanwhile=self.daemon.terminate)

    def test_device_removal_waits_for_who_fetches_it(self):
        def end():
            self.daemon.terminate()
            self.daemon.wait(self.LIMIT)

        self.sees("device_removal", *RESOLVED, "CONNECT_REQUEST", "DEVICE_REMOVAL", "DEVICE_REMOVAL", meanwhile=end)


class SubnetTest(EventsTest):
    """Tests what only a subnet manager can report; RoCE has none."""

    def test_route_error(self):
        self.sees("route_error", RESOLVED[0], f"RDMA_CM_EVENT_ROUTE_ERROR {-errno.ETIMEDOUT}", meanwhile=self.port("down"))

    def test_multicast_error(self):
        self.sees("multicast_error", "MULTICAST_JOIN", f"RDMA_CM_EVENT_MULTICAST_ERROR {-errno.ENETRESET}",
                  meanwhile=self.port("down"))


if __name__ == "__main__":
    EmulatorTest.BIN, PROGRAM, EmulatorTest.PERSONA = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0]], defaultTest="SubnetTest" if EmulatorTest.PERSONA == "ib" else "EventsTest",
                  verbosity=2)
