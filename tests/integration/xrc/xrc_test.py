# SPDX-License-Identifier: BSD-2-Clause
"""An XRC domain that several processes share: one receives for all, others own the SRQs, one sends.

    xrc_test.py PREFIX PERSONA LINK PROGRAM CLASS
"""

import errno
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "verbs"))
import run  # noqa: E402

PREFIX = PERSONA = LINK = PROGRAM = None
LIMIT = 30
SUCCESS, FLUSHED, REMOTE_INVALID, REMOTE_ACCESS, RETRY_EXCEEDED = 0, 5, 9, 10, 12  # ibv_wc_status
RECEIVE = 128
QP_FATAL, QP_REQUEST_ERROR, QP_ACCESS_ERROR, COMM_EST = 1, 2, 3, 4  # ibv_event_type
RESET, INIT, RTR, RTS, ERR = 0, 1, 2, 3, 6


class Refused(Exception):
    def __init__(self, error, text):
        super().__init__(f"{errno.errorcode.get(error, error)}: {text}")
        self.error = error


class Member:
    """A process of the application; `context` names one of its contexts."""

    def __init__(self, device, contexts=1):
        environment = dict(device.environment, VERBENA_LINK=LINK, VERBENA_LOG="explain")
        self.process = subprocess.Popen(device.wrap([PROGRAM, str(contexts)]), env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines = queue.Queue()
        self.complaints = []
        self.readers = [threading.Thread(target=self._read), threading.Thread(target=self._hear)]
        for reader in self.readers:
            reader.start()
        try:
            self._answer()
        except BaseException:
            self.end(kill=True)
            raise

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)

    def _hear(self):
        for line in self.process.stderr:
            self.complaints.append(line)

    def _answer(self):
        words = self.lines.get(timeout=LIMIT).rstrip("\n").split(" ", 1)
        rest = words[1] if len(words) > 1 else ""
        if words[0] != "ok":
            raise Refused(int(rest), "".join(self.complaints[-3:]))
        return rest

    def do(self, *words, context=0):
        self.process.stdin.write(" ".join(str(w) for w in (context, *words)) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def numbers(self, *words, context=0):
        return [int(w) for w in self.do(*words, context=context).split()]

    def end(self, kill=False):
        if kill:
            self.process.kill()
        else:
            self.process.stdin.close()
        self.process.wait(timeout=LIMIT)
        for reader in self.readers:
            reader.join(timeout=LIMIT)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()


class XrcCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = run.emulator(PREFIX, PERSONA)
        cls.device.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.device.__exit__()

    def setUp(self):
        self.members = []
        self.file = self.device.folder / f"domain-{self.id().rsplit('.', 1)[1]}"

    def tearDown(self):
        for member in self.members:
            if member.process.poll() is None:
                member.end(kill=True)

    def member(self, contexts=1, domain="c"):
        member = Member(self.device, contexts)
        self.members.append(member)
        if domain is not None:
            for context in range(contexts):
                member.do("domain", self.file, domain, context=context)
        return member

    def refused(self, error, member, *words):
        with self.assertRaises(Refused) as caught:
            member.do(*words)
        self.assertEqual(caught.exception.error, error, caught.exception)

    def explained(self, member, text):
        """Waits until the member explains this: standard error has a pipe of its own, which may be behind."""
        end = time.monotonic() + LIMIT
        while not any(text in line for line in member.complaints):
            self.assertLess(time.monotonic(), end, member.complaints)
            time.sleep(0.02)

    def makes_the_domain(self, member, helper):
        """Waits until the domain is gone, which the daemon learns soon, but not at once. Then the member makes it anew."""
        for _ in range(200):
            try:
                member.do("domain", self.file, "cx")
                return
            except Refused:
                helper.do("event", 20)
        self.fail("the domain stays")

    def connect(self, receiver, sender):
        """Connects a receiver (in any state) and a sender, and brings both to RTS."""
        number = getattr(receiver, "number", None)
        if number is None:
            number = receiver.number = receiver.numbers("receiver")[0]
        peer = getattr(sender, "number", None)
        if peer is None:
            peer = sender.number = sender.numbers("sender")[0]
        for member, other in ((receiver, peer), (sender, number)):
            for step in ("reset", "init", f"rtr {other}", "rts"):
                member.do("modify", step)

    def owner(self, receives=8):
        member = self.member()
        member.srq, member.key, member.address = member.numbers("srq")
        member.do("receive", receives)
        return member

    def completes(self, member, status=SUCCESS, milliseconds=20000):
        words = member.do("poll", milliseconds).split(" ", 4)
        self.assertNotEqual(words[0], "none", "".join(member.complaints))
        self.assertEqual(int(words[0]), status, "".join(sum((m.complaints for m in self.members), [])))
        return words

    def receives(self, member, text, receiver):
        words = self.completes(member)
        self.assertEqual(int(words[1]), RECEIVE)
        self.assertEqual(words[4], text)
        self.assertEqual(int(words[3]), receiver.number)

    def four(self):
        """Returns four connected members: one that receives, two others with SRQs, and one that sends."""
        receiver = self.owner()
        owners = [receiver, self.owner(), self.owner()]
        sender = self.member(domain=None)
        self.connect(receiver, sender)
        return receiver, owners, sender


class XrcTest(XrcCase):
    def test_every_operation_reaches_the_owner_that_is_named(self):
        receiver, owners, sender = self.four()
        for member in owners:
            member.do("clear")
        for turn in range(3):
            for index, member in enumerate(owners):
                sender.do("send", member.srq, f"message-{turn}-{index}")
                self.completes(sender)
                self.receives(member, f"message-{turn}-{index}", receiver)
                sender.do("send", member.srq, "ab", 3000)
                self.completes(sender)
                self.receives(member, "ab" * 1500, receiver)
                sender.do("write", member.srq, member.key, member.address + 8, f"written-{turn}-{index}")
                self.completes(sender)
                self.assertEqual(member.numbers("number"), [turn])
                sender.do("add", member.srq, member.key, member.address, 1)
                self.completes(sender)
                self.assertEqual(sender.numbers("number"), [turn])
                self.assertEqual(member.numbers("number"), [turn + 1])
                sender.do("clear")
                sender.do("read", member.srq, member.key, member.address + 8, 12)
                self.completes(sender)
                self.assertEqual(sender.do("text"), f"written-{turn}-{index}"[:12])
                member.do("receive", 2)

    def test_many_messages_to_changing_owners_arrive_in_order(self):
        receiver, owners, sender = self.four()
        for member in owners:
            member.do("receive", 24)
        for n in range(60):
            sender.do("send", owners[n % 3].srq, f"n{n}")
            self.completes(sender)
        for n in range(60):
            self.receives(owners[n % 3], f"n{n}", receiver)

    def test_an_owner_without_receives_is_waited_for(self):
        receiver, sender = self.owner(), self.member(domain=None)
        other = self.owner(receives=0)
        self.connect(receiver, sender)
        sender.do("send", other.srq, "early")
        self.assertEqual(sender.do("poll", 100), "none")
        other.do("receive", 1)
        self.completes(sender)
        self.receives(other, "early", receiver)

    def test_memory_of_another_owner_is_refused(self):
        receiver, owners, sender = self.four()
        sender.do("write", owners[1].srq, owners[2].key ^ 0x7f00, owners[1].address, "x")
        self.completes(sender, REMOTE_ACCESS)
        self.assertEqual(int(receiver.do("query").split()[0]), ERR)
        events = [receiver.do("event", 5000), receiver.do("event", 100)]
        self.assertIn(f"{QP_ACCESS_ERROR} qp", events)
        self.connect(receiver, sender)
        sender.do("send", owners[1].srq, "again")
        self.completes(sender)
        self.receives(owners[1], "again", receiver)

    def test_an_srq_of_another_domain_or_of_none_is_refused(self):
        receiver, owners, sender = self.four()
        stranger = self.member(domain=None)
        stranger.do("domain", str(self.file) + "-other", "c")
        number = stranger.numbers("srq")[0]
        private = self.member(domain=None)
        private.do("domain", "none", "c")
        for srq in (number, private.numbers("srq")[0], owners[1].srq + 7, 900 << 14):
            sender.do("send", srq, "x")
            self.completes(sender, REMOTE_INVALID)
            self.connect(receiver, sender)
        sender.do("send", owners[2].srq, "fine")
        self.completes(sender)
        self.receives(owners[2], "fine", receiver)

    def test_a_destroyed_srq_is_refused(self):
        receiver, owners, sender = self.four()
        sender.do("send", owners[1].srq, "one")
        self.completes(sender)
        owners[1].do("destroy_srq")
        sender.do("send", owners[1].srq, "two")
        self.completes(sender, REMOTE_INVALID)
        self.explained(owners[1], f"there is no XRC SRQ 0x{owners[1].srq:06x} ")
        self.explained(sender, f"for XRC SRQ 0x{owners[1].srq:06x} with NAK invalid request: has the peer's domain")

    def test_the_death_of_an_owner_ends_requests_to_it_only(self):
        receiver, owners, sender = self.four()
        for member in owners:
            sender.do("send", member.srq, "one")
            self.completes(sender)
        owners[1].end(kill=True)
        sender.do("send", owners[2].srq, "two")
        self.completes(sender)
        sender.do("send", receiver.srq, "three")
        self.completes(sender)
        sender.do("send", owners[1].srq, "four")
        self.completes(sender, REMOTE_INVALID)
        for member, texts in ((owners[2], ("one", "two")), (receiver, ("one", "three"))):
            for text in texts:
                self.receives(member, text, receiver)

    def test_the_death_of_an_owner_with_requests_under_way(self):
        receiver, sender = self.owner(), self.member(domain=None)
        other = self.owner(receives=0)
        self.connect(receiver, sender)
        sender.do("send", other.srq, "never")
        self.assertEqual(sender.do("poll", 50), "none")
        other.end(kill=True)
        self.completes(sender, REMOTE_INVALID)

    def test_the_death_of_the_receiver(self):
        receiver, owners, sender = self.four()
        sender.do("send", owners[1].srq, "one")
        self.completes(sender)
        owners[2].do("open_qp", receiver.number)
        receiver.end(kill=True)
        self.assertEqual(owners[2].do("event", 5000), f"{QP_FATAL} qp")
        self.refused(errno.EINVAL, owners[2], "query")
        self.refused(errno.EINVAL, owners[2], "modify", "reset")
        owners[2].do("destroy_qp")
        sender.do("send", owners[1].srq, "two")
        self.completes(sender, RETRY_EXCEEDED)
        # The domain lives in the processes that have it open, and accepts another receiver.
        second = self.member(domain="")
        fresh = self.member(domain=None)
        self.connect(second, fresh)
        fresh.do("send", owners[2].srq, "three")
        self.completes(fresh)
        self.receives(owners[2], "three", second)

    def test_a_handle_in_another_process(self):
        receiver = self.member()
        receiver.number = receiver.numbers("receiver")[0]
        other = self.owner()
        self.assertEqual(other.numbers("open_qp", receiver.number), [receiver.number, RESET])
        sender = self.member(domain=None)
        peer = sender.numbers("sender")[0]
        other.do("modify", "init")
        other.do("modify", f"rtr {peer}")
        self.assertEqual(receiver.numbers("query"), [RTR, peer])
        self.assertEqual(other.numbers("query"), [RTR, peer])
        self.refused(errno.EINVAL, other, "modify", "init")
        self.explained(other, "ibv_modify_qp RTR->INIT")
        for step in ("init", f"rtr {receiver.number}", "rts"):
            sender.do("modify", step)
        sender.do("send", other.srq, "hello")
        self.completes(sender)
        self.receives(other, "hello", receiver)
        self.assertEqual(other.do("event", 5000), f"{COMM_EST} qp")
        self.assertEqual(receiver.do("event", 5000), f"{COMM_EST} qp")
        # The receiver lives as long as any handle of it.
        receiver.do("destroy_qp")
        receiver.do("close_domain")
        sender.do("send", other.srq, "still")
        self.completes(sender)
        self.receives(other, "still", receiver)
        other.do("destroy_qp")
        sender.do("send", other.srq, "gone")
        self.completes(sender, RETRY_EXCEEDED)

    def test_a_device_that_is_closed_first_takes_its_receiver_along(self):
        """The program closes its device without destroying what it has made there."""
        for has_another_handle in (False, True):
            receiver, owners, sender = self.four()
            if has_another_handle:
                owners[1].do("open_qp", receiver.number)
            sender.do("send", owners[1].srq, "one")
            self.completes(sender)
            self.receives(owners[1], "one", receiver)
            receiver.do("close_device")
            receiver.end()
            self.assertEqual(receiver.process.returncode, 0)
            sender.do("send", owners[1].srq, "gone")
            self.completes(sender, RETRY_EXCEEDED)

    def test_a_handle_dies_with_its_process(self):
        receiver, owners, sender = self.four()
        owners[1].do("open_qp", receiver.number)
        owners[1].end(kill=True)
        sender.do("send", receiver.srq, "one")
        self.completes(sender)
        receiver.do("destroy_qp")
        receiver.do("destroy_srq")
        receiver.do("close_domain")

    def test_numbers_that_are_no_receiver_here(self):
        receiver, owners, sender = self.four()
        stranger = self.member(domain=None)
        stranger.do("domain", str(self.file) + "-other", "c")
        for number in (receiver.number + 1, sender.number, 900 << 14, 0):
            self.refused(errno.EINVAL, owners[1], "open_qp", number)
        self.refused(errno.EINVAL, stranger, "open_qp", receiver.number)

    def test_opening_and_closing(self):
        first = self.member(domain=None)
        second = self.member(domain=None)
        self.refused(errno.EAGAIN, first, "domain", self.file, "-")
        first.do("domain", self.file, "cx")
        self.refused(errno.EINVAL, second, "domain", self.file, "cx")
        second.do("domain", self.file, "-")
        second.numbers("srq")
        self.refused(errno.EBUSY, second, "close_domain")
        first.do("close_domain")
        self.refused(errno.EINVAL, first, "domain", self.file, "cx")
        second.do("destroy_srq")
        second.do("close_domain")
        self.refused(errno.EAGAIN, second, "domain", self.file, "-")
        first.do("domain", self.file, "cx")
        first.end(kill=True)
        self.makes_the_domain(second, second)

    def test_a_domain_that_was_opened_again_is_closed_in_the_end(self):
        """A receiver that another process uses keeps the domain of its maker, who opens it a second time meanwhile."""
        maker, other, third = (self.member(domain=None) for _ in range(3))
        maker.do("domain", self.file, "c")
        other.do("domain", self.file, "-")
        other.do("open_qp", maker.numbers("receiver")[0])
        maker.do("destroy_qp")
        maker.do("close_domain")
        maker.do("domain", self.file, "-")
        maker.do("close_domain")
        other.do("destroy_qp")
        other.do("close_domain")
        self.makes_the_domain(third, third)

    def test_a_file_that_is_removed_has_no_successor(self):
        """Its domain stays, and no new file is taken for it, although most file systems would give it the same number."""
        member = self.member(contexts=2, domain=None)
        descriptors = f"/proc/{member.process.pid}/fd"
        before = len(os.listdir(descriptors))
        member.do("domain", self.file, "cx")
        os.unlink(self.file)
        for _ in range(20):
            member.do("domain", self.file, "cx", context=1)
            member.do("close_domain", context=1)
            os.unlink(self.file)
        member.do("close_domain")
        self.assertEqual(len(os.listdir(descriptors)), before)

    def test_two_contexts_of_one_process(self):
        both = self.member(contexts=2)
        both.number = both.numbers("receiver")[0]
        srq = both.numbers("srq", context=1)[0]
        both.do("receive", 4, context=1)
        sender = self.member(domain=None)
        self.connect(both, sender)
        for n in range(4):
            sender.do("send", srq, f"n{n}")
            self.completes(sender)
            words = both.do("poll", 5000, context=1).split()
            self.assertEqual((words[0], words[4]), ("0", f"n{n}"))
        self.assertEqual(both.numbers("open_qp", both.number, context=1)[1], RTS)
        self.assertEqual(both.numbers("query", context=1)[0], RTS)
        both.do("destroy_qp", context=1)


class StoppedTest(XrcCase):
    """The process that has the queue pair is stopped for longer than another one waits for it."""

    def test_a_handle_that_nobody_awaits_any_more_is_closed(self):
        owner, other = self.member(), self.member()
        number = owner.numbers("receiver")[0]
        owner.process.send_signal(signal.SIGSTOP)
        self.refused(errno.ETIMEDOUT, other, "open_qp", number)
        self.explained(other, "does not answer")
        owner.process.send_signal(signal.SIGCONT)
        owner.do("destroy_qp")
        owner.do("close_domain")
        other.do("close_domain")
        self.makes_the_domain(self.member(domain=None), owner)


if __name__ == "__main__":
    PREFIX, PERSONA, LINK, PROGRAM = sys.argv[1:5]
    PROGRAM = os.path.abspath(PROGRAM)
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
