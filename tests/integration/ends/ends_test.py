# SPDX-License-Identifier: BSD-2-Clause
"""What two processes see of each other's work, over each link: a request is done before its answer comes, and a sleeper
that has armed its completion queue is woken.

    ends_test.py PREFIX PROGRAM
"""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "provider"))
import device as devices  # noqa: E402

PREFIX = PROGRAM = None
LINKS = ("auto", "udp")


class Ends(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.emulator = devices.Emulator(PREFIX)
        cls.device = cls.emulator.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.emulator.__exit__()

    def run_ends(self, link, *words):
        self.device.environment["VERBENA_LINK"] = link
        done = self.device.run([PROGRAM, *words])
        self.assertEqual(done.returncode, 0, f"{link} {words}: {done.stdout}{done.stderr}")
        return done.stdout


class Order(Ends):
    """An adapter acknowledges before the program can answer. Here the ACK may wait for the answer and travel with it."""

    def all_but_none_is_late(self, *words):
        for link in LINKS:
            with self.subTest(link=link, words=words):
                text = self.run_ends(link, "answers-follow-completions", "--rounds", "400", *words)
                late, of = map(int, re.fullmatch(r"late (\d+) of (\d+)\n", text).groups())
                self.assertEqual(of, 400 * (6 if "--at-once" in words else 1))
                # A request that was lost and repeated may complete late, as with an adapter.
                self.assertLessEqual(late, of // 50, text)

    def test_short_answers(self):
        self.all_but_none_is_late("--one-cq")
        self.all_but_none_is_late()

    def test_several_at_once(self):
        self.all_but_none_is_late("--one-cq", "--at-once", "6")
        self.all_but_none_is_late("--one-cq", "--at-once", "6", "--size", "3000")

    def test_long_answers(self):
        for size in ("4096", "60000", "400000"):
            self.all_but_none_is_late("--one-cq", "--size", size)

    def test_with_a_shared_receive_queue(self):
        self.all_but_none_is_late("--one-cq", "--srq")

    def test_by_another_queue_pair_of_xrc(self):
        self.all_but_none_is_late("--one-cq", "--xrc")

    def test_of_a_server_that_sleeps(self):
        self.all_but_none_is_late("--one-cq", "--server-sleeps")
        self.all_but_none_is_late("--one-cq", "--server-sleeps", "--size", "20000")


class Events(Ends):
    def test_what_was_not_polled_is_told_of_when_the_queue_is_armed(self):
        for link in LINKS:
            with self.subTest(link=link):
                text = self.run_ends(link, "unpolled-completions-tell")
                self.assertEqual(text.splitlines(), ["solicited: quiet", "any: told", "events: 1", "any: quiet", "events: 0",
                                                     "any: told", "events: 1", "none: quiet"])

    def test_one_completion_for_each_event(self):
        for link in LINKS:
            for words in ([], ["--blocks"]):
                with self.subTest(link=link, words=words):
                    self.run_ends(link, "one-completion-for-each-event", "--rounds", "3000", *words)

    def test_who_arms_and_sleeps_is_woken(self):
        for link in LINKS:
            for words in ([], ["--size", "20000"], ["--ud"]):
                with self.subTest(link=link, words=words):
                    self.run_ends(link, "armed-sleepers-wake", "--rounds", "2000", *words)


if __name__ == "__main__":
    PREFIX, PROGRAM = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
