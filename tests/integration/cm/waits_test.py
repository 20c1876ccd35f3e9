# SPDX-License-Identifier: BSD-2-Clause
"""What `verbena waits` says of rdma_cm IDs.

    waits_test.py BIN LIBRARY [FIRST]     FIRST: what must be loaded before (a sanitizer's runtime)
"""

import json
import os
import subprocess

from rdma_cm_case import RdmaCmCase, binary, run
from rdma_cm_channel import *


class Waits(RdmaCmCase):
    def waits(self):
        env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        done = subprocess.run([binary("verbena"), "waits", "--json"], env=env, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [wait["text"] for wait in json.loads(done.stdout)["waits"] if wait["pid"] == os.getpid()]

    def says(self, *texts):
        self.until(lambda: self.waits() == list(texts))

    def test_nobody_comes(self):
        server = self.channel()
        server.listener()
        self.says("listens at 0.0.0.0:7174 with rdma_cm, and nobody is connected")

    def test_a_request_that_is_not_answered(self):
        server, client = self.channel(), self.channel()
        server.listener()
        client.start_connecting(10, 0x4001)
        self.says("1 event of rdma_cm is not read (rdma_get_cm_event)")
        passive = server.expect(CONNECT_REQUEST).id
        incomplete = "its connection to 127.0.0.1:7174 by rdma_cm is not complete"
        said = self.waits()
        self.assertEqual(said[1], incomplete)
        self.assertRegex(said[0], r"^a request for a connection from 127\.\S+:\d+ was neither accepted nor rejected$")
        self.assertEqual(len(said), 2)
        server.accept(passive, 20, 0x8001)
        client.expect(CONNECT_RESPONSE)
        # The client has got the response (REP), and its confirmation (RTU) has not been sent.
        said = self.waits()
        self.assertEqual(said[0], incomplete)
        self.assertEqual(len(said), 2)

    def test_a_request_that_was_rejected(self):
        server, client = self.channel(), self.channel()
        server.listener()
        client.start_connecting(10, 0x4001)
        passive = server.expect(CONNECT_REQUEST).id
        server.reject(passive)
        client.expect(REJECTED)
        self.says("its connection to 127.0.0.1:7174 by rdma_cm was not made: rejected, or not answered")

    def test_a_datagram_request_that_is_not_answered(self):
        """Of UD (SIDR): until the answer, and not afterwards."""
        for accepts in (False, True):
            server, client = self.channel(), self.channel()
            listener, active, passive = self.requested_by_datagram(server, client, 0x4001)
            requested, asked = self.waits()
            self.assertEqual(asked, "rdma_connect to 127.0.0.1:7174 has no answer yet (a SIDR request)")
            self.assertRegex(requested, r"^a request for a connection from 127\.\S+:\d+ was neither accepted nor rejected$")
            if accepts:
                server.accept(passive, 20, 0x8001)
                client.expect(ESTABLISHED)
                self.says()
            else:
                server.reject(passive)
                client.expect(UNREACHABLE)
                self.says("its connection to 127.0.0.1:7174 by rdma_cm was not made: rejected, or not answered")
            for id_ in (passive, listener):
                server.destroy(id_)
            client.destroy(active)

    def test_the_next_call(self):
        client = self.channel()
        id_ = client.create(1)
        client.bind(id_, "0.0.0.0", 7175)
        self.says("is bound to 0.0.0.0:7175 and does not listen")
        client.resolve_addr(id_, "127.0.0.1", 7174)
        client.expect(ADDR_RESOLVED)
        self.says("rdma_resolve_route to 127.0.0.1:7174 was not called yet")
        client.resolve_route(id_)
        client.expect(ROUTE_RESOLVED)
        self.says("rdma_connect to 127.0.0.1:7174 was not called yet")

    def test_a_connection_has_nothing_to_wait_for(self):
        server, client = self.channel(), self.channel()
        server.listener()
        active = client.start_connecting(10, 0x4001)
        passive = server.expect(CONNECT_REQUEST).id
        server.accept(passive, 20, 0x8001)
        client.expect(CONNECT_RESPONSE)
        client.confirm(active)
        server.expect(ESTABLISHED)
        self.says()
        client.disconnect(active)
        server.expect(DISCONNECTED)
        active_one, passive_one = self.waits()
        self.assertEqual(active_one, "rdma_disconnect to 127.0.0.1:7174 has no answer yet")
        self.assertRegex(passive_one, r"^its connection to 127\.\S+ by rdma_cm has ended$")


if __name__ == "__main__":
    run()
