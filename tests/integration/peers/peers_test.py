# SPDX-License-Identifier: BSD-2-Clause
"""Peers that do not answer. A program waits for a peer whose process is stopped, and is told what became of others.

    peers_test.py PREFIX PUPPET
"""

import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "counters"))
import puppets  # noqa: E402

LINKS = ("shm", "udp")
# With these a timeout comes within some 40 ms.
IMPATIENT = {"timeout": 8, "retries": 1}
SUCCESS, RETRIES_EXCEEDED = "0", "12"


class Peers(puppets.PuppetCase):
    def each_link(self, case):
        for link in LINKS:
            with self.subTest(link=link):
                case(link)

    def warm(self, first, second):
        """Sends something, so that a ring is made if the link has rings."""
        self.assertEqual(first.do("write", **second.memory), "ok")
        self.assertEqual(first.do("poll"), SUCCESS)

    def said_by(self, puppet, words):
        self.until(lambda: words in puppet.said(), f"{words!r} is not in {puppet.said()!r}")

    def is_stopped(self, pid):
        """Returns whether all threads of the process are stopped: a thread that still runs would answer."""
        stats = [path.read_text() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
        return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)

    def test_one_that_is_stopped_is_waited_for(self):
        def case(link):
            first, second = self.pair(link, **IMPATIENT)
            self.warm(first, second)
            second.process.send_signal(signal.SIGSTOP)
            self.until(lambda: self.is_stopped(second.process.pid), "it does not stop")
            try:
                self.assertEqual(first.do("write", count=20, length=4096, **second.memory), "ok")
                # This is fifty times as long as a requester would wait otherwise.
                time.sleep(2)
                self.said_by(first, f"process {second.process.pid} (puppet) is stopped")
            finally:
                second.process.send_signal(signal.SIGCONT)
            self.assertEqual(first.do("poll", count=20), " ".join([SUCCESS] * 20))
            self.assertEqual(first.said().count("is stopped"), 1, first.said())

        self.each_link(case)

    def test_what_is_not_repeated_waits_for_the_ring(self):
        """The peer cannot accept a ring yet. What UC sends meanwhile is more than a socket holds."""
        first, second = self.start("uc", "shm"), self.start("uc", "shm")
        self.assertEqual(second.do("connect", **first.to), "ok")
        self.assertEqual(first.do("connect", **second.to), "ok")
        self.assertEqual(second.do("receive", count=4000, length=8192), "ok")
        second.process.send_signal(signal.SIGSTOP)
        self.until(lambda: self.is_stopped(second.process.pid), "it does not stop")
        try:
            self.assertEqual(first.do("send", count=4000, length=8192), "ok")
            time.sleep(0.3)
        finally:
            second.process.send_signal(signal.SIGCONT)
        self.assertEqual(first.do("poll", count=4000), " ".join([SUCCESS] * 4000))
        self.assertEqual(second.do("poll", count=4000), " ".join([SUCCESS] * 4000))

    def test_a_port_that_is_down(self):
        def case(link):
            first, second = self.pair(link, **IMPATIENT)
            self.warm(first, second)
            self.device.control("port", "verbena0", "down")
            try:
                self.assertEqual(first.do("write", **second.memory), "ok")
                self.assertEqual(first.do("poll"), RETRIES_EXCEEDED)
                self.said_by(first, "the port of verbena0 is DOWN (verbena port verbena0 up)")
            finally:
                self.device.control("port", "verbena0", "up")

        self.each_link(case)

    def test_one_that_has_ended(self):
        def case(link):
            first, second = self.pair(link, **IMPATIENT)
            self.warm(first, second)
            second.kill()
            self.assertEqual(first.do("write", **second.memory), "ok")
            self.assertEqual(first.do("poll"), RETRIES_EXCEEDED)
            self.said_by(first, f"process {second.process.pid} (puppet) has ended")

        self.each_link(case)

    def test_one_that_never_was_ready(self):
        def case(link):
            first, second = self.start("rc", link), self.start("rc", link)
            self.assertEqual(first.do("connect", **second.to, **IMPATIENT), "ok")
            self.assertEqual(first.do("write", **second.memory), "ok")
            self.assertEqual(first.do("poll"), RETRIES_EXCEEDED)
            self.said_by(first, f"process {second.process.pid} (puppet) never reached RTR")

        self.each_link(case)

    def test_one_that_is_connected_to_somebody_else(self):
        def case(link):
            first, second, third = (self.start("rc", link) for _ in range(3))
            self.assertEqual(second.do("connect", **third.to), "ok")
            self.assertEqual(first.do("connect", **second.to, **IMPATIENT), "ok")
            self.assertEqual(first.do("write", **second.memory), "ok")
            self.assertEqual(first.do("poll"), RETRIES_EXCEEDED)
            self.said_by(first, f"the queue pair of process {second.process.pid} (puppet) is connected to QPN "
                                f"0x{third.qpn:06x}, not to this one (0x{first.qpn:06x})")

        self.each_link(case)

    def test_a_number_that_nobody_has(self):
        def case(link):
            first, second = self.start("rc", link), self.start("rc", link)
            self.assertEqual(first.do("connect", **second.to | {"qpn": second.qpn ^ 1}, **IMPATIENT), "ok")
            self.assertEqual(first.do("write", **second.memory), "ok")
            self.assertEqual(first.do("poll"), RETRIES_EXCEEDED)
            self.said_by(first, f"process {second.process.pid} (puppet) has no queue pair of that number")

        self.each_link(case)


if __name__ == "__main__":
    puppets.PREFIX, puppets.PROGRAM = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
