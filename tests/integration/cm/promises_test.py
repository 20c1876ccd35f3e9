# SPDX-License-Identifier: BSD-2-Clause
"""Commands that an event has promised to succeed go to the emulator without waiting for an answer: a promise is kept
once, a command without a promise is refused with an errno as ever, and no command overtakes another.

    promises_test.py BIN LIBRARY [FIRST]
"""

import errno
import os
import subprocess
import threading

from rdma_cm_case import LIMIT, RdmaCmCase, binary, run
from rdma_cm_channel import *



class PromisesTest(RdmaCmCase):
    def routed(self, channel, uid):
        id_ = channel.create(uid)
        channel.resolve_addr(id_, "127.0.0.1", 7174)
        channel.expect(ADDR_RESOLVED)
        channel.resolve_route(id_)
        channel.expect(ROUTE_RESOLVED)
        return id_

    def refused(self, code, call, *arguments):
        with self.assertRaises(OSError) as refusal:
            call(*arguments)
        self.assertEqual(refusal.exception.errno, code)

    def test_a_promise_is_kept_once(self):
        server, client = self.channel(), self.channel()
        server.listener()
        active = self.routed(client, 1)
        client.connect(active, 0x4001)
        self.refused(errno.EINVAL, client.connect, active, 0x4001)
        passive = server.expect(CONNECT_REQUEST).id
        server.accept(passive, 2, 0x8001)
        client.expect(CONNECT_RESPONSE)
        client.confirm(active)
        self.refused(errno.EINVAL, client.confirm, active)
        self.assertEqual(server.expect(ESTABLISHED).uid, 2)
        self.refused(errno.EINVAL, server.accept, passive, 2, 0x8001)

    def test_who_shares_the_channel_shares_the_promise(self):
        server, client = self.channel(), self.channel()
        server.listener()
        active = self.routed(client, 1)
        child = os.fork()
        if child == 0:
            try:
                client.connect(active, 0x4001)
                os._exit(0)
            except BaseException:
                os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.refused(errno.EINVAL, client.connect, active, 0x4001)
        server.expect(CONNECT_REQUEST)

    def test_what_was_not_promised_is_refused(self):
        client = self.channel()
        active = self.routed(client, 1)
        long = struct.pack("<II", 1, 0) + bytes(256) + bytes([57, 0, 1, 1, 0, 7, 7, 1])
        tail = struct.pack("<IIII", active, 0, 0, 0)
        self.refused(errno.EINVAL, client.command, CONNECT, long + tail)
        unset = bytearray(self.parameters())
        unset[-1] = 0
        self.refused(errno.EINVAL, client.command, CONNECT, bytes(unset) + tail)
        self.refused(errno.EINVAL, client.command, CONNECT, self.parameters()[:-1])
        self.refused(errno.ENOENT, client.connect, 0x7fffffff, 1)
        server = self.channel()
        self.refused(errno.EINVAL, server.connect, active, 1)
        server.listener()
        client.connect(active, 0x4001)
        server.expect(CONNECT_REQUEST)

    def test_what_a_rule_makes_fail_is_promised_no_more(self):
        server, client = self.channel(), self.channel()
        server.listener()
        active = self.routed(client, 1)
        rules = ("fail=ECONNRESET call=rdma_connect nth=1", "fail=EIO call=rdma_accept nth=1")
        env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        subprocess.run([binary("verbena"), "fault", *(word for rule in rules for word in ("--inject", rule))], env=env, check=True)
        self.refused(errno.ECONNRESET, client.connect, active, 0x4001)
        client.connect(active, 0x4001)
        passive = server.expect(CONNECT_REQUEST).id
        self.refused(errno.EIO, server.accept, passive, 2, 0x8001)
        server.accept(passive, 2, 0x8001)
        client.expect(CONNECT_RESPONSE)
        client.confirm(active)
        self.assertEqual(server.expect(ESTABLISHED).uid, 2)

    @staticmethod
    def parameters():
        return Channel._param(1)

    def test_a_request_whose_sender_is_gone_cannot_be_accepted(self):
        server, client = self.channel(), self.channel()
        server.listener()
        active = client.start_connecting(1, 0x4001)
        passive = server.expect(CONNECT_REQUEST).id
        client.destroy(active)
        client.start_connecting(3, 0x4002)
        # The server has also got what was sent before this request.
        server.expect(CONNECT_REQUEST)
        self.refused(errno.EINVAL, server.accept, passive, 2, 0x8001)
        self.assertEqual(server.destroy(passive), 0)

    def test_an_end_that_crosses_an_acceptance_is_told(self):
        server, client = self.channel(), self.channel()
        server.listener()
        for i in range(100):
            active = client.start_connecting(1, 0x4001 + i)
            passive = server.expect(CONNECT_REQUEST).id
            ends = threading.Thread(target=client.destroy, args=(active,))
            ends.start()
            try:
                server.accept(passive, 2, 0x8001 + i)
                event = server.event()
                while event.type in (ESTABLISHED, TIMEWAIT_EXIT):
                    event = server.event()
                self.assertIn(event.type, (REJECTED, DISCONNECTED))
                self.assertEqual(event.uid, 2)
            except OSError as error:
                self.assertEqual(error.errno, errno.EINVAL)
            ends.join(LIMIT)
            server.destroy(passive)

    def test_nothing_overtakes_what_was_posted(self):
        client, other = self.channel(), self.channel()
        for i in range(200):
            active = self.routed(client, 1)
            client.connect(active, 0x4001 + i)
            if i % 2 == 0:
                self.assertEqual(other.migrate(active, client), 2)
                self.assertEqual(other.destroy(active), 2)
                continue
            # Disconnecting an ID that has not begun to connect is EINVAL.
            client.disconnect(active)
            self.assertEqual(client.destroy(active), 2)
        self.assertFalse(self.is_readable(client))
        self.assertFalse(self.is_readable(other))

    def test_what_was_posted_goes_out_before_the_channel_ends(self):
        server = self.channel()
        server.listener()
        for i in range(50):
            client = Channel()
            active = client.start_connecting(1, 0x4001 + i)
            passive = server.expect(CONNECT_REQUEST).id
            server.accept(passive, 2, 0x8001 + i)
            client.expect(CONNECT_RESPONSE)
            # This event stays unread, so the kernel reports ECONNRESET to the emulator before the commands that were
            # posted.
            client.resolve_addr(client.create(3), "127.0.0.1", 1)
            client.destroy(client.create(0))
            client.confirm(active)
            client.close()
            server.expect(ESTABLISHED)
            server.expect(DISCONNECTED)
            server.destroy(passive)

    def test_hundreds_are_posted_at_once(self):
        server, client = self.channel(), self.channel()
        server.listener()
        ids = {self.routed(client, uid): uid for uid in range(1, 501)}
        for id_, uid in ids.items():
            client.connect(id_, 0x4000 + uid)
        for i in range(len(ids)):
            server.accept(server.expect(CONNECT_REQUEST).id, 1000 + i, 0x8000 + i)
        for _ in ids:
            client.confirm(client.expect(CONNECT_RESPONSE).id)
        self.assertEqual(sorted(server.expect(ESTABLISHED).uid for _ in ids), list(range(1000, 1000 + len(ids))))
        self.assertFalse(self.is_readable(server))
        self.assertFalse(self.is_readable(client))


if __name__ == "__main__":
    run()
