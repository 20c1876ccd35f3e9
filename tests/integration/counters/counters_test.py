#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Each counter moves when what it counts happens, in every place that shows it, and keeps its value when the process is
gone.

    counters_test.py PREFIX PUPPET [unittest arguments]
"""

import pathlib
import sys
import unittest

import puppets
from packets import RC_ACK, RC_SEND_ONLY, UC_SEND_ONLY, UD_SEND_ONLY, Forger, aeth, bth, deth
from puppets import PuppetCase

RETRY_EXCEEDED, RNR_EXCEEDED, REMOTE_INVALID, LOCAL_LENGTH, LOCAL_PROTECTION, FLUSHED = "12", "13", "9", "1", "4", "5"
LINKS = ("udp", "auto")  # auto: rings, within one host
GROUP = "ff0e" + "0" * 20 + "ffffe0010203"[-8:]


class Traffic(PuppetCase):
    """Counts traffic without failures."""

    def test_messages_of_each_kind(self):
        for link in LINKS:
            with self.subTest(link=link):
                first, second = self.pair(link)
                before = self.port()
                second.do("receive", count=3)
                self.assertEqual(first.do("send", count=3), "ok")
                self.assertEqual(first.do("poll", count=3), "0 0 0")
                self.assertEqual(second.do("poll", count=3), "0 0 0")
                for verb in ("write", "read", "add"):
                    self.assertEqual(first.do(verb, count=2, **second.memory), "ok")
                    self.assertEqual(first.do("poll", count=2), "0 0")
                moved = self.moved(before)
                wanted = {"sent_sends": 3, "rdma_recvs": 3, "rdma_sends": 2, "rx_write_requests": 2,
                          "rx_read_requests": 2, "rx_atomic_requests": 2}
                self.assertEqual({name: moved.get(name) for name in wanted}, wanted)
                self.assertGreaterEqual(moved["port_xmit_packets"], 9 + 6)
                self.assertGreaterEqual(moved["port_xmit_bytes"], 3 * 64 + 4 * 64 + 2 * 8)
                self.assertEqual(moved["port_rcv_packets"], moved["port_xmit_packets"])
                self.assertEqual(moved["port_rcv_bytes"], moved["port_xmit_bytes"])
                self.assertEqual(moved["unicast_xmit_packets"], moved["port_xmit_packets"])
                self.assertEqual(moved["unicast_rcv_packets"], moved["port_rcv_packets"])
                self.assertEqual("shared_ring_packets" in moved, link == "auto")
                # On a busy machine a side may ask again for what has arrived already.
                troubles = {name for name in moved if name.startswith("rx_drop_") or name.endswith(("_err", "_error"))}
                self.assertLessEqual(troubles, {"rx_drop_duplicate_request", "rx_drop_response_to_nothing_outstanding"}, moved)

    def test_multicast(self):
        sender, member = self.start("ud"), self.start("ud")
        for puppet in (sender, member):
            self.assertEqual(puppet.do("connect"), "ok")
        self.assertEqual(member.do("join", gid=GROUP), "ok")
        member.do("receive", count=4)
        before = self.port()
        self.assertEqual(sender.do("send", count=4, gid=GROUP, qpn=0xffffff), "ok")
        self.assertEqual(member.do("poll", count=4), "0 0 0 0")
        moved = self.moved(before)
        self.assertEqual(moved["multicast_xmit_packets"], 4)
        self.assertEqual(moved["multicast_rcv_packets"], 4)
        self.assertNotIn("unicast_xmit_packets", moved)
        self.assertNotIn("unicast_rcv_packets", moved)

    def test_the_same_in_each_place(self):
        """The places are `verbena status`, sysfs and netlink."""
        for link in LINKS:
            first, second = self.pair(link)
            second.do("receive", count=2)
            first.do("send", count=2)
            first.do("poll", count=2)
            second.do("poll", count=2)
        shown = self.status()["devices"][0]["ports"][0]
        files = self.files("hw_counters")
        self.assertEqual({name: files[name] for name in shown["counters"]}, shown["counters"])
        drops = {name[len("rx_drop_"):]: n for name, n in files.items() if name.startswith("rx_drop_") and n}
        self.assertEqual(drops, shown["drops"])
        told = self.device.run(["rdma", "statistic", "show", "link", "verbena0/1"])
        self.assertEqual(told.returncode, 0, told.stderr)
        words = told.stdout.split()
        statistic = {name: int(value) for name, value in zip(words, words[1:]) if value.isdigit() and name in files}
        self.assertEqual(statistic, files)
        standard = self.files("counters")
        self.assertEqual(standard["port_xmit_packets"], files["port_xmit_packets"])
        self.assertEqual(standard["port_rcv_packets"], files["port_rcv_packets"])
        self.assertEqual(standard["port_xmit_data"], files["port_xmit_bytes"] // 4)
        self.assertEqual(standard["port_rcv_data"], files["port_rcv_bytes"] // 4)
        for name in ("unicast_xmit_packets", "unicast_rcv_packets", "multicast_xmit_packets", "multicast_rcv_packets"):
            self.assertEqual(standard[name], files[name])

    def test_read_by_a_relative_path(self):
        """After `cd` a relative path reads a file that is as new as by its whole path."""
        for folder, name in (("counters", "port_xmit_packets"), ("counters", "port_xmit_data"),
                             ("hw_counters", "sent_sends"), ("hw_counters", "rx_drop_duplicate_request")):
            with self.subTest(name=name):
                whole = self.files(folder)[name]
                first, second = self.pair("auto")
                second.do("receive", count=3)
                first.do("send", count=3)
                first.do("poll", count=3)
                path = f"/sys/class/infiniband/verbena0/ports/1/{folder}"
                read = f"cd {path}; cat {name}; cat {path}/{name}; cat ../{folder}/{name}"
                done = self.device.run(["sh", "-c", read])
                relative, now, by_parent = (int(word) for word in done.stdout.split())
                self.assertEqual((relative, by_parent), (now, now), done.stderr)
                if not name.startswith("rx_drop"):
                    self.assertGreater(relative, whole)


class Lives(PuppetCase):
    """Counts outlive the processes that counted."""

    def play(self, link):
        first, second = self.pair(link)
        second.do("receive", count=5)
        first.do("send", count=5)
        first.do("poll", count=5)
        second.do("poll", count=5)
        return first, second

    def test_of_processes_that_ended(self):
        for link in LINKS:
            with self.subTest(link=link):
                before = self.port()
                puppets = self.play(link)

                def all_have_arrived():
                    moved = self.moved(before)
                    return moved["port_xmit_packets"] == moved["port_rcv_packets"]

                # On a busy machine a repetition may be under way when its receiver ends.
                self.until(all_have_arrived, "lost on the way")
                packets = self.moved(before)["port_xmit_packets"]
                for puppet in puppets:
                    puppet.end()
                self.until(lambda: not self.status()["devices"][0]["contexts"], "still there")
                moved = self.moved(before)
                self.assertEqual((moved["sent_sends"], moved["rdma_recvs"]), (5, 5))
                self.assertGreaterEqual(moved["port_xmit_packets"], packets)
                self.assertGreaterEqual(moved["port_rcv_packets"], packets)

    def test_of_processes_that_were_killed(self):
        for link in LINKS:
            with self.subTest(link=link):
                before = self.port()
                both = self.play(link)
                last = self.moved(before)
                for puppet in both:
                    puppet.kill()
                self.until(lambda: not self.status()["devices"][0]["contexts"], "still there")
                self.assertEqual(self.moved(before), last)
                self.assertEqual((last["sent_sends"], last["rdma_recvs"]), (5, 5))
                self.assertEqual(last["port_xmit_packets"], last["port_rcv_packets"])

    def test_status_reset(self):
        """`--reset` shows the counters once more. Afterwards they are zero everywhere, also those of dead processes."""
        living = self.play("auto")
        sent = self.qp_of(living[0])["sent_packets"]
        for puppet in self.play("udp"):
            puppet.kill()
        last = self.port("--reset")
        self.assertGreaterEqual(last["sent_sends"], 10)
        self.assertEqual({name: n for name, n in self.port().items() if n}, {})
        self.assertEqual(set(self.files("hw_counters").values()), {0})
        self.assertEqual(set(self.files("counters").values()), {0})
        living[1].do("receive")
        living[0].do("send")
        living[0].do("poll")
        living[1].do("poll")
        self.assertEqual(self.port()["sent_sends"], 1)
        self.assertEqual(self.qp_of(living[0])["sent_packets"], sent + 1, "what a queue pair has counted stays its own")
        self.assertNotIn("sent 0 packets", self.device.control("status").stdout)

    def test_down_forgets(self):
        both = self.play("udp")
        self.assertGreater(self.port()["sent_sends"], 0)
        for puppet in both:
            puppet.end()  # the processes hold the port's sockets
        self.device.control("down")
        up = self.device.control("up", "--fabric", self.device.fabric)
        self.assertEqual(up.returncode, 0, up.stderr)
        self.assertEqual(self.port()["sent_sends"], 0)


class Trouble(PuppetCase):
    """Counts failures."""

    def test_a_peer_that_is_gone(self):
        for link in LINKS:
            with self.subTest(link=link):
                first, second = self.pair(link, timeout=10, retries=2)
                second.kill()
                before = self.port()
                first.do("send", count=2)
                self.assertEqual(first.do("poll", count=2), f"{RETRY_EXCEEDED} {FLUSHED}")
                moved = self.moved(before)
                self.assertEqual(moved["retry_exceeded_err"], 1)
                self.assertEqual(moved["local_ack_timeout_err"], 3, "the first and two retries")
                self.assertEqual(moved["req_cqe_error"], 1, "what is flushed is no error")
                self.assertGreaterEqual(moved["retransmitted_packets"], 2)
                self.assertEqual(moved["retransmitted_packets"], self.qp_of(first)["retransmitted_packets"])

    def test_no_receive_posted(self):
        for link in LINKS:
            with self.subTest(link=link):
                first, second = self.pair(link, rnr=2)
                before = self.port()
                first.do("send")
                self.assertEqual(first.do("poll"), RNR_EXCEEDED)
                moved = self.moved(before)
                self.assertEqual(moved["send_rnr_err"], 3)
                self.assertEqual(moved["rcvd_rnr_err"], 3)
                self.assertEqual(moved["retry_rnr_exceeded_err"], 1)
                self.assertEqual(moved["req_cqe_error"], 1)

    def test_a_message_that_is_too_long(self):
        for link in LINKS:
            with self.subTest(link=link):
                first, second = self.pair(link)
                second.do("receive", length=32)
                before = self.port()
                first.do("send", length=64)
                self.assertEqual((first.do("poll"), second.do("poll")), (REMOTE_INVALID, LOCAL_LENGTH))
                moved = self.moved(before)
                self.assertEqual((moved["req_cqe_error"], moved["resp_cqe_error"]), (1, 1))

    def test_a_lossy_line(self):
        """A lossy line has gaps, repairs and packets that come twice."""
        for link in LINKS:
            with self.subTest(link=link):
                first, second = self.pair(link)
                before = self.port()
                self.assertEqual(self.device.control("fault", "--loss", "5%").returncode, 0)
                self.addCleanup(self.device.control, "fault", "--clear")
                wanted = {"out_of_sequence", "rcvd_seq_err", "duplicate_request", "retransmitted_packets",
                          "rx_drop_psn_out_of_sequence", "rx_drop_duplicate_request"}

                def all_moved(seen=wanted, since=before):
                    first.do("write", count=500, length=2048, **second.memory)
                    statuses = first.do("poll", count=500)
                    self.assertEqual(set(statuses.split()), {"0"})
                    return seen <= set(self.moved(since))

                self.until(all_moved, f"{wanted - set(self.moved(before))} did not move")
                self.device.control("fault", "--clear")
                moved = self.moved(before)
                self.assertEqual(moved["out_of_sequence"], moved["rx_drop_psn_out_of_sequence"])
                self.assertEqual(moved["duplicate_request"], moved["rx_drop_duplicate_request"])
                self.assertEqual(moved["rdma_sends"], moved["rx_write_requests"], "each is carried out once")
                self.assertEqual(moved["rdma_sends"] % 500, 0)

    def test_port_taken_down(self):
        before = self.files("counters")["link_downed"]
        for state in ("down", "down", "up", "down", "up"):
            self.assertEqual(self.device.control("port", "verbena0", state).returncode, 0)
        self.assertEqual(self.files("counters")["link_downed"], before + 2)

    def test_nothing_leaves_a_port_that_is_down(self):
        for link in LINKS:
            with self.subTest(link=link):
                first, _ = self.pair(link, timeout=10, retries=2)
                before = self.port()
                self.device.control("port", "verbena0", "down")
                first.do("send", count=2)
                self.assertEqual(first.do("poll", count=2), f"{RETRY_EXCEEDED} {FLUSHED}")
                self.device.control("port", "verbena0", "up")
                moved = self.moved(before)
                self.assertEqual(moved["retry_exceeded_err"], 1)
                self.assertEqual({name for name in moved if "_xmit_" in name}, set(), moved)

    def test_violations_are_the_ports(self):
        """ibv_query_port counts the violations of all processes, also of dead ones."""
        observer = self.start("ud")
        sender, receiver = self.start("ud"), self.start("ud")
        sender.do("connect")
        receiver.do("connect")
        pkey, qkey = map(int, observer.do("violations").split())
        before = self.port()
        sender.do("send", count=3, qkey=0x777, **receiver.to)
        sender.do("poll", count=3)
        with Forger(self.address(), self.address(), self.source_port()) as forger:
            for _ in range(2):
                forger.send(bth(UD_SEND_ONLY, receiver.qpn, pkey=0x9234) + deth(0x1234) + bytes(8))
        wanted = {"rx_drop_qkey_violation": 3, "rx_drop_pkey_violation": 2}
        self.until(lambda: wanted.items() <= self.moved(before).items(), f"{self.moved(before)}")
        self.assertEqual(observer.do("violations"), f"{pkey + 2} {qkey + 3}")
        receiver.kill()
        self.until(lambda: len(self.status()["devices"][0]["contexts"]) == 2, "still there")
        self.assertEqual(observer.do("violations"), f"{pkey + 2} {qkey + 3}")

    def address(self):
        return self.status()["devices"][0]["address"]


class Unreachable(PuppetCase):
    """A RoCE port has a peer whose address the system does not send to."""

    options = ("--roce", "127.111.6.1")

    def test_what_cannot_be_sent(self):
        sender = self.start("ud")
        self.assertEqual(sender.do("connect"), "ok")
        before = self.port()
        discards = self.files("counters")["port_xmit_discards"]
        sender.do("send", count=3, gid="0" * 20 + "ffff" + "c0000201", qpn=77)
        self.assertEqual(sender.do("poll", count=3), "0 0 0")
        self.until(lambda: self.moved(before).get("udp_send_failures") == 3, f"{self.moved(before)}")
        self.assertEqual(self.files("counters")["port_xmit_discards"], discards + 3)

    def test_a_connection_that_ends_for_it(self):
        """It ends as if the peer were silent, but the reason is on this side."""
        sender = self.start("rc", VERBENA_LOG="explain")
        self.assertEqual(sender.do("connect", gid="0" * 20 + "ffff" + "c0000201", qpn=77, timeout=10, retries=1), "ok")
        sender.do("send")
        self.assertEqual(sender.do("poll"), RETRY_EXCEEDED)
        self.until(lambda: "after 1 retries" in sender.said(), sender.said())
        self.assertRegex(sender.said(), r"meanwhile the system has refused to send [1-9]\d* packets .*MTU .*path_mtu \d+, .*route\?")


class Drops(PuppetCase):
    """Packets made by hand cause each reason for a drop."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.address = cls.device.fabric.replace(".0/24", ".1")

    def setUp(self):
        self.first, self.second = self.pair()
        self.forger = self.enterContext(Forger(self.address, self.address, self.source_port()))

    def expect(self, reason, count=1, before=None, **others):
        """Asserts that exactly this is counted, apart from packets that arrive."""
        wanted = {f"rx_drop_{reason}": count} | others
        self.until(lambda: f"rx_drop_{reason}" in self.moved(before), f"{reason}: {self.moved(before)}")
        moved = {name: n for name, n in self.moved(before).items() if name.startswith("rx_drop_") or name in others}
        self.assertEqual(moved, wanted)

    def drop(self, reason, packet, raw=False):
        before = self.port()
        errors = self.files("counters")["port_rcv_errors"]
        if raw:
            self.forger.send_raw(packet)
        else:
            self.forger.send(packet)
        self.expect(reason, before=before)
        return self.files("counters")["port_rcv_errors"] - errors

    def test_what_is_no_packet(self):
        """Datagrams that are no packets count as errors of the port as well."""
        qpn = self.first.qpn
        self.assertEqual(self.drop("too_short", bth(RC_SEND_ONLY, qpn)[:9], raw=True), 1)
        self.assertEqual(self.drop("bad_icrc", bth(RC_SEND_ONLY, qpn) + bytes(12), raw=True), 1)
        self.assertEqual(self.drop("bad_transport_version", bth(RC_SEND_ONLY, qpn, version=3) + bytes(8)), 1)
        self.assertEqual(self.drop("unknown_opcode", bth(0x1f, qpn) + bytes(8)), 1)
        self.assertEqual(self.drop("bad_pad_count", bth(RC_SEND_ONLY, qpn, pad=3)), 1)

    def test_whom_it_is_for(self):
        self.assertEqual(self.drop("unknown_qp", bth(RC_SEND_ONLY, self.first.qpn + 5) + bytes(8)), 0)
        self.drop("opcode_of_another_transport", bth(UD_SEND_ONLY, self.first.qpn) + deth(0) + bytes(8))
        self.drop("pkey_violation", bth(RC_SEND_ONLY, self.first.qpn, pkey=0x8123) + bytes(8))
        waiting = self.start()
        self.drop("qp_state_does_not_receive", bth(RC_SEND_ONLY, waiting.qpn) + bytes(8))
        self.drop("multicast_group_not_joined", bth(UD_SEND_ONLY, 0xffffff) + deth(0) + bytes(8))

    def test_from_whom(self):
        before = self.port()
        with Forger(self.address[:-1] + "9", self.address, self.source_port()) as stranger:
            stranger.send(bth(RC_SEND_ONLY, self.first.qpn) + bytes(8))
        self.expect("source_is_not_the_connected_peer", before=before)

    def test_answers_to_nothing(self):
        qpn = self.first.qpn
        self.drop("ack_beyond_what_was_sent", bth(RC_ACK, qpn, psn=900) + aeth(0))
        self.drop("reserved_aeth_syndrome", bth(RC_ACK, qpn, psn=99) + aeth(0x40))
        self.drop("response_to_nothing_outstanding", bth(RC_ACK, qpn, psn=90) + aeth(0))

    def test_datagrams(self):
        receiver = self.start("ud")
        receiver.do("connect")
        self.drop("qkey_violation", bth(UD_SEND_ONLY, receiver.qpn) + deth(0x4321) + bytes(8))
        self.drop("no_receive_posted", bth(UD_SEND_ONLY, receiver.qpn) + deth(0x1234) + bytes(8))
        receiver.do("receive", count=2)
        self.drop("length_or_order_violation", bth(UD_SEND_ONLY, receiver.qpn) + deth(0x1234) + bytes(5000))

    def test_a_port_that_is_down(self):
        before = self.port()
        self.device.control("port", "verbena0", "down")
        self.forger.send(bth(UC_SEND_ONLY, self.first.qpn) + bytes(8))
        self.until(lambda: "rx_drop_port_down" in self.moved(before), f"{self.moved(before)}")
        self.device.control("port", "verbena0", "up")


if __name__ == "__main__":
    puppets.PREFIX, puppets.PROGRAM = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
