# SPDX-License-Identifier: BSD-2-Clause
"""What `verbena waits` says that hanging programs wait for, and `verbena run` when its time limit is up.

    waits_test.py PREFIX PUPPET
"""

import json
import pathlib
import re
import signal
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "counters"))
import puppets  # noqa: E402

import json_schema  # noqa: E402  (beside control_client)

LINKS = ("shm", "udp")
NO_MORE = ("nothing is outstanding and all completions were polled, so no completion will come; a request without "
           "IBV_SEND_SIGNALED leaves none")


class Waits(puppets.PuppetCase):
    def setUp(self):
        # Clears what the device has dropped in an earlier test.
        self.status("--reset")

    def each_link(self, case):
        for link in LINKS:
            with self.subTest(link=link):
                case(link)

    def waits(self):
        """Returns what is said, by pid. None stands for the devices."""
        done = self.device.control("waits", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual(json_schema.wrong(said, json_schema.load("commands")), [])
        by_pid = {}
        for wait in said["waits"]:
            by_pid.setdefault(wait["pid"], []).append(wait["text"])
        return by_pid

    def of(self, puppet):
        return self.waits().get(puppet.process.pid, [])

    def says(self, puppet, *texts):
        """Waits until this is said of the puppet: what was posted may still be on its way."""
        self.until(lambda: self.of(puppet) == list(texts), f"{texts} is not what {self.of(puppet)} says")

    def with_channel(self, link="udp"):
        """Returns two connected puppets. The second one has a channel for completion events."""
        sender, waiter = self.start("rc", link), self.start("rc", link, PUPPET_CHANNEL="1")
        self.assertEqual(waiter.do("connect", **sender.to), "ok")
        self.assertEqual(sender.do("connect", **waiter.to), "ok")
        return sender, waiter

    @staticmethod
    def name(puppet):
        return f"0x{puppet.qpn:06x} of puppet[{puppet.process.pid}]"

    @staticmethod
    def waiting(puppet, receives=1):
        return (f"RC QP 0x{puppet.qpn:06x}: nothing of its own is outstanding, and {receives} "
                f"receive{'s wait' if receives > 1 else ' waits'} for messages of")

    def test_a_program_at_work(self):
        """A program that works is not said to wait, although it has a request outstanding at each moment."""
        def case(link):
            first, second = self.pair(link)
            done = threading.Event()

            def work():
                while not done.is_set():
                    first.do("write", length=8, **second.memory)
                    first.do("poll")

            worker = threading.Thread(target=work)
            worker.start()
            try:
                for puppet in (first, second):
                    self.says(puppet, "is at work: it sends or receives")
            finally:
                done.set()
                worker.join()
            self.says(second, NO_MORE)

        self.each_link(case)

    def test_repetitions_are_no_work(self):
        """While the peer has no receive, the same message is sent again and again."""
        def case(link):
            first, second = self.pair(link, rnr=7)
            self.assertEqual(first.do("send"), "ok")
            for _ in range(10):
                self.assertIn("has no receive posted", self.of(first)[0])
                self.assertEqual(self.of(second), [NO_MORE])

        self.each_link(case)

    def test_the_worst_is_told_first(self):
        puppet, peer = self.pair("udp", timeout=8, retries=0)
        for _ in range(6):
            self.assertTrue(puppet.do("another"))
        peer.kill()
        self.assertEqual(puppet.do("write", **peer.memory), "ok")
        self.assertEqual(puppet.do("poll"), "12")
        self.assertRegex(self.of(puppet)[0], rf"^RC QP 0x{puppet.qpn:06x} is in ERR: ")

    def test_events_that_nobody_acknowledged(self):
        sender, waiter = self.with_channel()
        self.assertEqual(waiter.do("receive"), "ok")
        self.assertEqual(waiter.do("arm"), "ok")
        self.assertEqual(sender.do("send"), "ok")
        self.assertEqual(waiter.do("event"), "ok")
        self.says(waiter, "CQ 1 holds 1 completion not polled; an event was read, and it has not polled since, or not until "
                          "the queue was empty")
        self.assertEqual(waiter.do("poll"), "0")
        self.says(waiter, "1 event of CQ 1 is not acknowledged (ibv_ack_cq_events): ibv_destroy_cq would wait for that", NO_MORE)
        self.assertEqual(waiter.do("ack"), "ok")
        self.says(waiter, NO_MORE)

    def test_calls_that_destroy_and_wait(self):
        """For events that were read and not acknowledged: of a completion queue, and others (ibv_get_async_event)."""
        sender, waiter = self.with_channel()
        self.assertEqual(waiter.do("receive"), "ok")
        self.assertEqual(waiter.do("arm"), "ok")
        self.assertEqual(sender.do("send"), "ok")
        self.assertEqual(waiter.do("event"), "ok")
        self.assertEqual(waiter.do("poll"), "0")
        waiter.ask("end")
        self.says(waiter, "ibv_destroy_cq waits: 1 event of CQ 1 is not acknowledged (ibv_ack_cq_events)")
        destroys = [destroy for context in self.status()["devices"][0]["contexts"] for destroy in context["waiting_destroys"]]
        self.assertEqual(destroys, [{"call": "ibv_destroy_cq", "acknowledges": "ibv_ack_cq_events", "number": 1, "events": 1,
                                     "missing": 1}])

        first, second = self.start(), self.start()
        self.assertEqual(second.do("receive"), "ok")
        self.assertEqual(second.do("ready", **first.to), "ok")
        self.assertEqual(first.do("connect", **second.to), "ok")
        self.assertEqual(first.do("send"), "ok")
        self.assertEqual(second.do("async"), "ok")  # IBV_EVENT_COMM_EST
        self.assertEqual(second.do("poll"), "0")
        second.ask("end")
        self.says(second, f"ibv_destroy_qp waits: 1 event of QP 0x{second.qpn:06x} is not acknowledged (ibv_ack_async_event)")

    def test_a_peer_that_has_ended(self):
        """How, and when: by a signal (unless its parent has learnt it first), in order, or only its queue pair."""
        ends = (("kill", r"died( by SIGKILL)? (less than 1|\d+) s ago"), ("end", r"closed its device (less than 1|\d+) s ago"),
                ("destroy", "has destroyed it"))

        def case(link):
            for how, words in ends:
                first, second = self.pair(link)
                self.assertEqual(first.do("receive"), "ok")
                if how == "destroy":
                    self.assertEqual(second.do("destroy"), "ok")
                else:
                    getattr(second, how)()
                text = re.escape(f"{self.waiting(first)} {self.name(second)}, which ") + words
                self.until(lambda: self.of(first) and re.fullmatch(text, self.of(first)[0]), self.of(first))

        self.each_link(case)

    def test_a_peer_in_rtr(self):
        first, second = self.start(), self.start()
        self.assertEqual(second.do("ready", **first.to), "ok")
        self.assertEqual(first.do("connect", **second.to), "ok")
        self.assertEqual(first.do("receive"), "ok")
        self.says(first, f"{self.waiting(first)} {self.name(second)}, which is in RTR and "
                         "sends nothing before RTS")

    def test_nothing_runs(self):
        self.assertEqual(self.waits(), {})
        self.assertEqual(self.device.control("waits").stdout, "")

    def test_a_queue_pair_that_is_not_connected(self):
        puppet = self.start()
        text = f"RC QP 0x{puppet.qpn:06x} is in INIT: it sends and receives nothing before RTR and RTS"
        self.says(puppet, text)
        self.assertEqual(self.device.control("waits").stdout, f"puppet[{puppet.process.pid}]: {text}\n")

    def test_a_peer_without_a_receive(self):
        def case(link):
            first, second = self.pair(link, rnr=7)
            self.assertEqual(first.do("send", count=2), "ok")
            self.says(first, f"RC QP 0x{first.qpn:06x}: 2 requests are not complete; the peer is {self.name(second)}, "
                             "which has no receive posted (a SEND and a WRITE with immediate need one)")
            self.assertEqual(second.do("receive", count=2), "ok")
            self.assertEqual(first.do("poll", count=2), "0 0")
            self.says(first, NO_MORE)
            self.says(second, "CQ 1 holds 2 completions not polled; it has no channel for events")

        self.each_link(case)

    def test_both_wait_for_each_other(self):
        def case(link):
            first, second = self.pair(link)
            for puppet in (first, second):
                self.assertEqual(puppet.do("receive", count=3), "ok")
            for puppet, peer in ((first, second), (second, first)):
                self.says(puppet, f"{self.waiting(puppet, 3)} {self.name(peer)}, "
                                  "which has sent all that it has posted")

        self.each_link(case)

    def test_a_peer_that_is_stopped(self):
        def case(link):
            first, second = self.pair(link, timeout=20, retries=7)
            self.assertEqual(first.do("receive"), "ok")
            second.process.send_signal(signal.SIGSTOP)
            try:
                self.says(second, "does not answer in time: it is stopped, in a debugger, or has no processor")
                self.says(first, f"{self.waiting(first)} 0x{second.qpn:06x} at "
                                 f"{self.address}, which no program that answers has")
            finally:
                second.process.send_signal(signal.SIGCONT)

        self.each_link(case)

    def test_a_peer_that_is_connected_to_somebody_else(self):
        first, second, third = (self.start() for _ in range(3))
        self.assertEqual(second.do("connect", **third.to), "ok")
        self.assertEqual(first.do("connect", **second.to), "ok")
        self.assertEqual(first.do("receive"), "ok")
        self.says(first, f"{self.waiting(first)} {self.name(second)}, "
                         f"which is connected to 0x{third.qpn:06x}, not to this one")

    def test_a_peer_that_is_not_there_yet(self):
        first, second = self.start(), self.start()
        self.assertEqual(first.do("connect", **second.to), "ok")
        self.assertEqual(first.do("receive"), "ok")
        self.says(first, f"{self.waiting(first)} {self.name(second)}, which is in INIT")

    def test_an_error_state(self):
        first, second = self.pair("udp", timeout=8, retries=0)
        second.kill()
        self.assertEqual(first.do("write", **second.memory), "ok")
        self.assertEqual(first.do("poll"), "12")
        [text] = self.of(first)
        self.assertRegex(text, rf"^RC QP 0x{first.qpn:06x} is in ERR: .*\w; its peer, puppet\[{second.process.pid}\], died"
                               r"( by SIGKILL)? (less than 1|\d+) s ago$")

    def test_events_that_cannot_come(self):
        """No event comes for completions that were there before the queue was armed, or that are not solicited."""
        def case(link):
            sender, waiter = self.with_channel(link)
            self.assertEqual(waiter.do("receive", count=2), "ok")
            self.assertEqual(sender.do("send"), "ok")
            self.assertEqual(sender.do("poll"), "0")
            not_armed = (r"CQ 1 holds 1 completion not polled and is not armed: they raise no event at fd \d+ "
                         r"\(ibv_req_notify_cq comes first, then a poll\)")
            self.until(lambda: self.of(waiter) and re.fullmatch(not_armed, self.of(waiter)[0]), self.of(waiter))

        self.each_link(case)

    def test_solicited_ones_only(self):
        sender, waiter = self.with_channel()
        self.assertEqual(waiter.do("receive"), "ok")
        self.assertEqual(waiter.do("arm", solicited=1), "ok")
        self.assertEqual(sender.do("send"), "ok")
        self.assertEqual(sender.do("poll"), "0")
        solicited = (r"CQ 1 holds 1 completion not polled and is armed for solicited ones only: they raise no event at "
                     r"fd \d+ \(ibv_req_notify_cq with solicited_only, and IBV_SEND_SOLICITED at the sender\)")
        self.until(lambda: self.of(waiter) and re.fullmatch(solicited, self.of(waiter)[0]), self.of(waiter))

    def test_an_event_that_is_not_read(self):
        sender, waiter = self.with_channel()
        self.assertEqual(waiter.do("receive"), "ok")
        self.assertEqual(waiter.do("arm"), "ok")
        self.assertEqual(sender.do("send"), "ok")
        self.until(lambda: self.of(waiter) and
                   re.fullmatch(r"1 event at fd \d+ is not read \(ibv_get_cq_event, CQ 1\)", self.of(waiter)[0]),
                   self.of(waiter))

    def test_of_many_the_first_are_told(self):
        puppet = self.start()
        for _ in range(6):
            self.assertTrue(puppet.do("another"))
        told = self.of(puppet)
        self.assertEqual(len(told), 5, told)
        self.assertEqual(told[4], "and 3 more queue pairs")

    def test_what_devices_have_to_say(self):
        """While programs use a device, `verbena waits` also says what is wrong with the device."""
        name = self.status()["devices"][0]["name"]
        self.assertEqual(self.device.control("port", name, "down").returncode, 0)
        self.assertEqual(self.waits(), {})
        first, second = self.pair("udp", "uc")
        self.assertEqual(self.waits()[None], ["its port is DOWN"])
        self.assertEqual(self.device.control("port", name, "up").returncode, 0)
        # The first ones may go before the sender has heard that the port is up. Each is polled, so that the queue has room.
        self.until(lambda: (first.do("send"), first.do("poll")) == ("ok", "0") and any(
            text.startswith("it has dropped packets since its counters began: ") for text in self.waits().get(None, [])),
                   "a message without a receive is dropped")
        self.assertEqual(second.do("state", "ERR"), "ok")

    @property
    def address(self):
        return self.status()["devices"][0]["address"]


if __name__ == "__main__":
    puppets.PREFIX, puppets.PROGRAM = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
