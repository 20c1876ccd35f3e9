# SPDX-License-Identifier: BSD-2-Clause
"""Ends that must come once and in time: of connections whose last message is lost, and of memberships.

    ends_test.py BIN LIBRARY [FIRST]     FIRST: what must be loaded before (a sanitizer's runtime)
"""

import errno
import json
import os
import subprocess
import time

from rdma_cm_case import RdmaCmCase, binary, run
from rdma_cm_channel import *

REJECTED_BY_PROGRAM = 28  # IBTA's reason


class Ends(RdmaCmCase):
    def verbena(self, *words):
        env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        done = subprocess.run([binary("verbena"), *words], env=env, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def shown(self, id_):
        return next(one for one in json.loads(self.verbena("status", "--json"))["cm_ids"] if one["id"] == id_)

    def test_a_lost_answer_to_a_disconnection(self):
        """The passive program keeps its ID: the connection behind it answers until the ID goes."""
        self.verbena("fault", "--inject", "drop cm=DREP nth=1")
        server, client = self.channel(), self.channel()
        server.listener()
        active, passive = self.connected(server, client)
        client.disconnect(active)
        begun = time.monotonic()
        server.expect(DISCONNECTED)
        server.disconnect(passive)
        event = client.expect(DISCONNECTED)
        self.assertEqual(event.status, 0)
        # Fifteen repetitions of the request would take 17 s.
        self.assertLess(time.monotonic() - begun, 8)

    def test_a_lost_rejection_of_an_acceptance(self):
        self.verbena("fault", "--inject", "drop cm=REJ nth=1")
        server, client = self.channel(), self.channel()
        server.listener()
        active = client.start_connecting(10, 0x4001)
        server.accept(server.expect(CONNECT_REQUEST).id, 20, 0x8001)
        client.expect(CONNECT_RESPONSE)
        begun = time.monotonic()
        client.reject(active)
        self.assertEqual(server.expect(REJECTED).status, REJECTED_BY_PROGRAM)
        self.assertLess(time.monotonic() - begun, 8)

    def test_a_membership_ends_once(self):
        client = self.channel()
        id_ = client.create(7, PS_UDP)
        client.resolve_addr(id_, "127.0.0.1", 7000)
        client.expect(ADDR_RESOLVED)
        membership = client.join(id_, 9, "239.1.2.3")
        client.expect(MULTICAST_JOIN)
        device = json.loads(self.verbena("status", "--json"))["devices"][0]["name"]
        for state in ("down", "up", "down", "up"):
            self.verbena("port", device, state)
        self.assertEqual(client.expect(MULTICAST_ERROR).status, -errno.ENETRESET)
        self.assertFalse(self.is_readable(client))
        self.assertEqual(client.leave(membership), 2)

    def test_a_second_acceptance_changes_nothing(self):
        server, client = self.channel(), self.channel()
        _, _, passive = self.requested_by_datagram(server, client, 5)
        server.accept(passive, 20, 77)
        client.expect(ESTABLISHED)
        before = self.shown(passive)
        self.assertEqual((before["state"], before["qpn"]), ("CONNECTED", "0x00004d"))
        with self.assertRaises(OSError) as refusal:
            server.accept(passive, 20, 78)
        self.assertEqual(refusal.exception.errno, errno.EINVAL)
        self.assertEqual(self.shown(passive), before)


if __name__ == "__main__":
    run()
