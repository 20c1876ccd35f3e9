#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What a program is told when something is refused or fails: which program, which object, with which values. It is told
once, not twenty thousand times. The tests use both links.

    explanations_test.py PREFIX PUPPET [unittest arguments]
"""

import pathlib
import re
import sys
import unittest

import puppets
from packets import RC_WRITE_FIRST, RC_WRITE_LAST, UD_SEND_ONLY, Forger, bth, deth, reth
from puppets import Puppet, PuppetCase, devices

LINKS = ("udp", "auto")


class Explanations(PuppetCase):
    def lines(self, puppet, pattern=""):
        """Returns the lines that the puppet was told and that contain the pattern. Each line names the program and its
        process."""
        lines = puppet.said().splitlines()
        for line in lines:
            self.assertRegex(line, rf"^verbena: puppet\[{puppet.process.pid}\]: ")
        return [line for line in lines if re.search(pattern, line)]

    def told(self, puppet, *parts):
        """Waits until one line has all of these parts: the other side may be told first."""
        self.until(lambda: any(all(part in line for part in parts) for line in puppet.said().splitlines()),
                   f"{parts} is not in: {puppet.said()}")
        self.lines(puppet)

    def each_link(self, **words):
        for link in LINKS:
            yield self.pair(link, **words)

    def fails(self, puppet, verb, **words):
        self.assertEqual(puppet.do(verb, **words), "ok")
        self.assertNotEqual(puppet.do("poll"), "0")

    def test_wrong_q_keys(self):
        """Twenty thousand wrong Q_Keys give a few lines, with their count."""
        sender, receiver = self.start("ud"), self.start("ud")
        sender.do("connect")
        receiver.do("connect")
        before = self.port()
        for _ in range(10):
            sender.do("send", count=2000, qkey=0x777, **receiver.to)
            sender.do("poll", count=2000)
        self.until(lambda: self.moved(before).get("rx_drop_qkey_violation", 0) >= 15000, "too few arrived")
        said = receiver.end().splitlines()
        self.assertLess(len(said), 10)
        self.assertRegex(said[0], rf"UD queue pair 0x{receiver.qpn:06x}: .* QPN 0x{sender.qpn:06x} .* 0x00000777 .* 0x00001234")
        self.assertRegex(said[-1], r"\(and \d+ more such lines that were left out\)$|for the 10000th time\)$")
        self.assertTrue(any(line.endswith("(such a line for the 1000th time)") for line in said), said)

    def test_all_of_them_for_those_who_want(self):
        sender, receiver = self.start("ud"), self.start("ud", VERBENA_LOG="explain-all")
        sender.do("connect")
        receiver.do("connect")
        sender.do("send", count=50, qkey=0x777, **receiver.to)
        sender.do("poll", count=50)
        self.until(lambda: len(self.lines(receiver, "Q_Key")) == 50, receiver.said())

    def test_lines_that_differ_in_numbers(self):
        """The first three lines of a kind are shown, although they differ in numbers."""
        sender, receiver = self.start("ud"), self.start("ud")
        sender.do("connect")
        receiver.do("connect")
        for key in range(1, 8):
            sender.do("send", qkey=key, **receiver.to)
            sender.do("poll")
        self.until(lambda: len(self.lines(receiver, "Q_Key")) == 3, receiver.said())
        self.assertIn("(and 3 more such lines that were left out)", receiver.end())

    def test_quiet(self):
        """With an empty VERBENA_LOG nothing is explained."""
        puppet = self.start(VERBENA_LOG="")
        self.assertEqual(puppet.do("send"), "errno 22")
        self.assertEqual(puppet.said(), "")

    def test_a_refused_verb(self):
        puppet = self.start()
        self.assertEqual(puppet.do("send"), "errno 22")
        self.told(puppet, f"ibv_post_send: queue pair 0x{puppet.qpn:06x} is in state INIT")

    def test_nothing_is_said_of_udp(self):
        """It is no trouble that no ring leads to a peer."""
        first, second = self.pair("udp")
        second.do("receive")
        first.do("send")
        first.do("poll")
        second.do("poll")
        self.assertEqual((first.end(), second.end()), ("", ""))

    def test_remote_memory(self):
        """The owner of the memory is told the key, the range, the bounds and the missing right; the other side, what it
        asked for."""
        for first, second in self.each_link():
            address = second.address + (1 << 20) - 32
            self.fails(first, "write", rkey=second.rkey, address=address, length=64)
            self.told(second, f"0x{second.rkey:x}", f"0x{address:x}", "length 64", "RDMA WRITE",
                      f"0x{second.address:x} to 0x{second.address + (1 << 20):x} (1048576 bytes)", "NAK remote access error")
            self.told(first, f"0x{second.qpn:06x} refused RDMA_WRITE with wr_id 5 of rkey 0x{second.rkey:x}",
                      f"address 0x{address:x}, length 64")
            self.assertIn("beyond the region", self.qp_of(second)["last_error"])
            self.assertIn("refused RDMA_WRITE with wr_id 5", self.qp_of(first)["last_error"])

    def test_unknown_key(self):
        for first, second in self.each_link():
            self.fails(first, "read", rkey=0xabcdef00, address=second.address)
            self.told(second, "RDMA READ: key 0xabcdef00", f"address 0x{second.address:x}, length 64",
                      "no region or window of this key")

    def test_rights_of_the_queue_pair(self):
        for link in LINKS:
            first, second = self.start(link=link), self.start(link=link)
            second.do("connect", access=1 | 4, **first.to)
            first.do("connect", **second.to)
            self.fails(first, "write", **second.memory)
            self.told(second, "the qp_access_flags of this queue pair lack IBV_ACCESS_REMOTE_WRITE",
                      "they are IBV_ACCESS_LOCAL_WRITE|IBV_ACCESS_REMOTE_READ")

    def test_own_memory(self):
        for first, second in self.each_link():
            second.do("receive")
            self.fails(first, "send", lkey=0x1200)
            self.told(first, "cannot read the buffers of SEND with wr_id 5: sg_list[0]: key 0x1200",
                      f"address 0x{first.address:x}, length 64", "no region or window of this key")
            self.assertIn("key 0x1200", self.qp_of(first)["last_error"])

    def test_memory_of_a_receive(self):
        for first, second in self.each_link():
            second.do("receive", lkey=0x1300)
            self.fails(first, "send")
            self.told(second, "the receive with wr_id 7 cannot be written to: key 0x1300")

    def test_a_message_that_is_too_long(self):
        for first, second in self.each_link():
            second.do("receive", length=32)
            self.fails(first, "send", length=64)
            self.told(second, "a message of 64 bytes or more does not fit into the 32 of the receive with wr_id 7")

    def test_no_receive(self):
        for first, second in self.each_link(rnr=1):
            self.fails(first, "send")
            self.told(first, f"the peer 0x{second.qpn:06x} had no receive posted for SEND with wr_id 5, 2 times")
            self.assertIn("no receive posted", self.qp_of(first)["last_error"])

    def test_events_that_nobody_acknowledged(self):
        """ibv_destroy_* waits for the acknowledgement of events, which looks like a hang."""
        first, second = self.start(PUPPET_CHANNEL="1"), self.start()
        self.assertEqual(second.do("connect", **first.to), "ok")
        self.assertEqual(first.do("connect", **second.to), "ok")
        first.do("arm")
        first.do("write", **second.memory)
        self.assertEqual((first.do("event"), first.do("poll")), ("ok", "0"))
        self.fails(first, "write", **second.memory | {"rkey": 0x1200})
        self.assertEqual(second.do("async"), "ok")
        for puppet, *said in ((first, "ibv_destroy_cq waits: ibv_get_cq_event has given 1 events", "ibv_ack_cq_events has acknowledged 0"),
                              (second, "ibv_destroy_qp waits: ibv_get_async_event has given 1 events", "ibv_ack_async_event")):
            puppet.ask("end")
            self.told(puppet, *said)

    def test_path_mtus_that_differ(self):
        for kind in ("rc", "uc"):
            for link in LINKS:
                with self.subTest(kind=kind, link=link):
                    first, second = self.start(kind, link), self.start(kind, link)
                    second.do("connect", mtu=3, **first.to)
                    first.do("connect", mtu=5, **second.to)
                    second.do("receive", length=8192)
                    first.do("send", length=8192)
                    self.told(second, "a packet of 4096 bytes does not suit path_mtu, which is 1024 bytes here")

    def test_a_full_completion_queue(self):
        """The queue pair reports the full queue once, although the flushed requests find no room either."""
        for link in LINKS:
            first, second = self.start(link=link, PUPPET_CQE="63"), self.start(link=link)
            second.do("connect", **first.to)
            first.do("connect", **second.to)
            first.do("write", count=300, **second.memory)
            self.told(first, "completion queue: overflow; it held cqe = 63")
            self.assertEqual(first.do("poll", count=63), " ".join(["0"] * 63))
            self.assertEqual(len([line for line in first.end().splitlines() if "completion queue is full" in line]), 1)

    def test_no_receive_for_ever(self):
        """With rnr_retry 7 nothing fails: the sender says that it waits for a receive, and goes on when there is one."""
        for first, second in self.each_link(rnr=7):
            self.assertEqual(first.do("send"), "ok")
            self.told(first, f"the peer 0x{second.qpn:06x} has had no receive posted for SEND with wr_id 5", "rnr_retry 7")
            second.do("receive")
            self.assertEqual(first.do("poll"), "0")
            self.assertEqual(len(self.lines(first)), 1)

    def test_windows(self):
        for words, said in (({}, "the region lacks IBV_ACCESS_MW_BIND; its access flags are IBV_ACCESS_LOCAL_WRITE|"),
                            ({"type": 1}, "no type 2 window, of this key (ibv_bind_mw is for windows of type 1)"),
                            ({"more": 0x1000}, "must be ibv_inc_rkey() of the window's")):
            with self.subTest(said=said):
                first, _ = self.pair()
                self.fails(first, "bind", **words)
                self.told(first, "BIND_MW with wr_id 5 of window", said)

    def test_no_receive_and_no_answer(self):
        """With UC and UD the sender never learns of the missing receive, so the receiver is told."""
        for kind in ("uc", "ud"):
            for link in LINKS:
                with self.subTest(kind=kind, link=link):
                    first, second = self.start(kind, link), self.start(kind, link)
                    second.do("connect", **first.to)
                    first.do("connect", **second.to)
                    first.do("send", **second.to)
                    self.told(second, f"0x{first.qpn:06x} was dropped: no receive is posted (ibv_post_recv)")

    def test_no_queue_pair_of_that_number(self):
        for link in LINKS:
            first, second = self.start("ud", link), self.start("ud", link)
            second.do("connect")
            first.do("connect")
            first.do("send", **second.to | {"qpn": second.qpn ^ 1})
            self.told(second, f"a datagram of QPN 0x{first.qpn:06x} was dropped: there is no queue pair 0x{second.qpn ^ 1:06x}")

    def test_a_queue_pair_that_is_not_ready_for_datagrams(self):
        for link in LINKS:
            for state in ("INIT", "ERR"):
                with self.subTest(link=link, state=state):
                    first, second = self.start("ud", link), self.start("ud", link)
                    first.do("connect")
                    if state == "ERR":
                        second.do("connect")
                        second.do("state", "ERR")
                    first.do("send", **second.to)
                    self.told(second, f"UD queue pair 0x{second.qpn:06x}: a datagram of QPN 0x{first.qpn:06x} was dropped",
                              f"is in state {state}, but receives only in RTR")

    def test_a_datagram_for_a_queue_pair_of_another_type(self):
        for link in LINKS:
            first, second = self.start("ud", link), self.start("rc", link)
            first.do("connect")
            first.do("send", **second.to)
            self.told(second, f"RC queue pair 0x{second.qpn:06x}: a datagram of QPN 0x{first.qpn:06x} at ",
                      "was dropped: only UD queue pairs receive datagrams")

    def test_queue_pairs_of_two_types(self):
        for link in LINKS:
            for kind in ("uc", "ud"):
                with self.subTest(link=link, kind=kind):
                    first, second = self.start("rc", link), self.start(kind, link)
                    second.do("connect", **first.to)
                    first.do("connect", timeout=10, retries=1, **second.to)
                    self.fails(first, "send")
                    self.told(second, f"{kind.upper()} queue pair 0x{second.qpn:06x}: a request from ",
                              "its queue pair is of type RC, and two that are connected must be of one type",
                              f"(this one's peer is 0x{first.qpn:06x})" if kind == "uc" else "")

    def test_a_child_of_who_has_opened_the_device(self):
        first, second = self.pair()
        self.assertEqual(first.do("fork"), "ok")
        said = first.said().splitlines()
        self.assertEqual(len(said), 1, said)
        self.assertRegex(said[0], r"ibv_poll_cq: the parent of this process has opened the device; nothing .* completes")
        self.assertEqual((first.do("write", **second.memory), first.do("poll")), ("ok", "0"))

    def test_too_many_reads_at_once(self):
        for link in LINKS:
            first, second = self.start(link=link), self.start(link=link)
            second.do("connect", served=0, **first.to)
            first.do("connect", **second.to)
            self.fails(first, "read", **second.memory)
            self.told(second, "max_dest_rd_atomic = 0")

    def test_psns_that_differ(self):
        """The receiver is told at once, the sender in the end."""
        for link in LINKS:
            for sq_psn, rq_psn in ((100, 5000), (5000, 100)):
                with self.subTest(link=link, sq_psn=sq_psn, rq_psn=rq_psn):
                    first, second = self.start(link=link), self.start(link=link)
                    second.do("connect", rq_psn=rq_psn, **first.to)
                    first.do("connect", sq_psn=sq_psn, timeout=13, retries=1, **second.to)
                    second.do("receive")
                    self.fails(first, "send")
                    self.told(second, f"the peer 0x{first.qpn:06x} sends PSN 0x{sq_psn:06x}",
                              f"expected is 0x{rq_psn:06x}", "sq_psn", "rq_psn")
                    self.assertEqual(len(self.lines(second, "sq_psn")), 1)
                    self.told(first, f"does not take PSN 0x{sq_psn:06x}", "rq_psn must be this sq_psn")

    def test_nothing_is_said_of_a_lossy_line(self):
        """On a lossy line the first packet may be missing as well, which does not mean different PSNs."""
        self.assertEqual(self.device.control("fault", "--loss", "20%").returncode, 0)
        self.addCleanup(self.device.control, "fault", "--clear")
        for first, second in self.each_link():
            second.do("receive", count=50)
            first.do("send", count=50)
            self.assertEqual(set(first.do("poll", count=50).split()), {"0"})
            self.assertEqual(self.lines(second) + self.lines(first), [])

    def test_strange_packets(self):
        address = self.device.fabric.replace(".0/24", ".1")
        receiver = self.start("ud")
        receiver.do("connect")
        connected, _ = self.pair("udp")
        with Forger(address, address, self.source_port()) as forger, Forger(address[:-1] + "9", address, self.source_port()) as stranger:
            forger.send(bth(UD_SEND_ONLY, receiver.qpn, pkey=0x8123) + deth(0x1234) + bytes(8))
            self.told(receiver, "its P_Key 0x8123 does not match 0xffff")
            stranger.send(bth(0x04, connected.qpn) + bytes(8))
            self.told(connected, f"a packet from {address[:-1]}9 was dropped: the connected peer is at {address}")

    def test_a_peer_that_is_gone(self):
        for first, second in self.each_link(timeout=10, retries=1):
            second.kill()
            self.fails(first, "send")
            self.told(first, f"QPN 0x{second.qpn:06x} at {self.device.fabric.replace('.0/24', '.1')}", "PSN 0x0000")
            self.told(first, "SEND with wr_id 5 completes with: transport retry counter exceeded")

    def test_a_peer_that_has_closed_its_device(self):
        """It is said to have ended only when it has."""
        for killed in (False, True):
            for first, second in self.each_link(timeout=10, retries=1):
                self.assertEqual(second.do("end"), "ok")
                if killed:
                    second.kill()
                self.fails(first, "send")
                self.told(first, f"process {second.process.pid} (puppet) has {'ended' if killed else 'closed its device'}")

    def test_an_address_of_no_device(self):
        for link in LINKS:
            first = self.start(link=link)
            first.do("connect", timeout=10, retries=1, lid=first.lid + 5, qpn=first.qpn)
            self.fails(first, "send")
            self.told(first, "no device of this emulator has LID 6")

    def test_two_emulators(self):
        """Programs of two emulators do not find each other, although their LIDs and queue pair numbers are similar."""
        both = [self.enterContext(devices.Emulator(puppets.PREFIX)) for _ in range(2)]
        first, second = [Puppet(each) for each in both]
        for puppet in (first, second):
            self.addCleanup(puppet.close)
        hint = "if the peer is another program, both must use one emulator (verbena run --pair, or verbena up"
        self.assertEqual(first.do("connect", timeout=10, retries=1, **second.to | {"qpn": first.qpn ^ 1}), "ok")
        self.fails(first, "send")
        self.told(first, "this leads to this process itself, which has no queue pair of that number; " + hint)
        self.assertEqual(second.do("connect", timeout=10, retries=1, **first.to | {"qpn": second.qpn ^ 0x800000}), "ok")
        self.fails(second, "send")
        self.told(second, "no process of this emulator has a queue pair of that number; " + hint)

    def test_a_region_that_goes_under_a_write(self):
        """Between two packets of a message its region may be deregistered: nothing was unmapped then."""
        address = self.device.fabric.replace(".0/24", ".1")
        first, second = self.pair("udp")
        with Forger(address, address, self.source_port()) as forger:
            forger.send(bth(RC_WRITE_FIRST, second.qpn) + reth(second.address, second.rkey, 1088) + bytes(1024))
            self.until(lambda: self.qp_of(second)["received_packets"] == 1, "the first packet did not arrive")
            self.assertEqual(second.do("deregister"), "ok")
            forger.send(bth(RC_WRITE_LAST, second.qpn, 101, ask=True) + bytes(64))
            self.told(second, f"an RDMA WRITE that is arriving: key 0x{second.rkey:x}", "no region or window of this key (any more)")

    def test_a_peer_that_is_gone_for_ever(self):
        """With timeout 0 nothing fails, but the sender says that its peer has ended."""
        for first, second in self.each_link(timeout=0):
            second.kill()
            self.assertEqual(first.do("send"), "ok")
            self.told(first, f"QPN 0x{second.qpn:06x}", f"process {second.process.pid} (puppet) has ended; with timeout 0")
            self.assertEqual(len(self.lines(first)), 1)

    def test_last_error(self):
        """`verbena status` shows the last error of a queue pair in its error state, as JSON and as text, and none for
        others."""
        first, second = self.pair()
        self.assertIsNone(self.qp_of(first)["last_error"])
        first.do("state", "ERR")
        self.assertEqual(self.qp_of(first)["state"], "ERR")
        self.assertEqual(self.qp_of(first)["last_error"], "ibv_modify_qp moved it to the error state")
        self.assertIn("ibv_modify_qp moved it to the error state", self.device.control("status").stdout)

    def test_last_error_of_those_whose_emulator_is_gone(self):
        puppet = self.start()
        self.device.control("down")
        self.told(puppet, "verbena0: ", "IBV_EVENT_DEVICE_FATAL")
        puppet.kill()  # this process holds the port's socket
        self.assertEqual(self.device.control("up", "--fabric", self.device.fabric).returncode, 0)


if __name__ == "__main__":
    puppets.PREFIX, puppets.PROGRAM = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
