# SPDX-License-Identifier: BSD-2-Clause
"""Bad wires between two hosts: everything arrives, each byte is right, and few packets are repeated that were not lost.

    wires_test.py BIN WIRE TRANSFERS
"""

import sys
import unittest

import wires

PROGRAMS = None
LITTLE = ("--count", "64", "--depth", "16", "--adds", "200")
# Data packets of one direction with these options, if none is repeated: WRITE and SEND, 64 KiB each.
DATA = 2 * 64 * 64


class Wires(unittest.TestCase):
    def over(self, *faults, transfers=LITTLE):
        """Returns what happened to the packets from the client and to those from the server."""
        with wires.Wire(*PROGRAMS, *faults) as wire:
            wire.transfer(*transfers)
        server, client = wire.counts
        return client, server

    def test_loss(self):
        client, server = self.over("--loss", "5")
        self.assertGreater(client["lost"] + server["lost"], 100)
        # One repeated packet for each lost one would be enough. Repeating all packets behind it, as for a receiver that
        # keeps no early packets, would be dozens.
        self.assertLess(client["packets"], DATA + 10 * client["lost"])

    def test_rare_loss(self):
        client, _ = self.over("--loss", "1")
        self.assertGreater(client["lost"], 30)
        # The packets in flight behind a lost one are kept, however many the receiver's socket would hold.
        self.assertLess(client["packets"], DATA + 5 * client["lost"])

    def test_corruption(self):
        client, _ = self.over("--corrupt", "5")
        self.assertGreater(client["corrupted"], 100)

    def test_duplicates(self):
        client, _ = self.over("--duplicate", "20")
        self.assertGreater(client["duplicated"], 500)
        self.assertLess(client["packets"], 2 * DATA)

    def test_reordering_is_not_a_loss(self):
        client, server = self.over("--reorder", "10")
        self.assertGreater(client["reordered"], 500)
        # Going back for each reordered packet would repeat some ten packets each time.
        self.assertLess(client["packets"], DATA + 4 * client["reordered"])
        self.assertGreater(server["reordered"], 200)

    def test_delay_is_not_a_loss(self):
        client, _ = self.over("--delay", "10", transfers=("--count", "64", "--depth", "16", "--adds", "50"))
        self.assertLess(client["packets"], 1.2 * DATA + 500)

    def test_a_slow_wire_is_not_a_dead_peer(self):
        self.over("--rate", "10", transfers=("--count", "16", "--depth", "16", "--adds", "20"))

    def test_all_at_once(self):
        self.over("--loss", "1", "--duplicate", "2", "--reorder", "5", "--corrupt", "1", "--delay", "1")


if __name__ == "__main__":
    wires.become_root()
    PROGRAMS = sys.argv[1:4]
    del sys.argv[1:4]
    unittest.main()
