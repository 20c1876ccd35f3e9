# SPDX-License-Identifier: BSD-2-Clause
"""`verbena fault` on whole programs: the seed decides which packets are lost.

    injected_test.py BUILD MESSAGES STEPS [CASE ...]
"""

import json
import pathlib
import subprocess
import sys
import time
import unittest

for room in ("provider", "faults"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / room))
import device as devices  # noqa: E402
import pingpong  # noqa: E402

BUILD = None
MESSAGES = STEPS = None  # the programs of the command line
LINKS = ("auto", "udp")


class Case(unittest.TestCase):
    """The base of the tests. Each has an emulator of its own."""

    emulator = ()  # options of `verbena up`

    def setUp(self):
        self.device = self.enterContext(devices.Emulator(BUILD, *self.emulator))

    def fault(self, *words):
        done = self.device.control("fault", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def status(self):
        return json.loads(self.device.control("status", "--json").stdout)["devices"][0]

    def counted(self, traffic="data"):
        """Returns what the fault has done so far."""
        for fault in self.status()["faults"]:
            if fault["traffic"] == traffic:
                return fault["counters"]
        return None

    def messages(self, link, kind, count, size):
        """Returns the numbers of the messages that did not arrive."""
        self.device.environment["VERBENA_LINK"] = link
        done = self.device.run([MESSAGES, kind, str(count), str(size)])
        self.assertEqual(done.returncode, 0, done.stderr)
        word, *missing = done.stdout.split()
        self.assertEqual(word, "missing", done.stdout)
        return [int(number) for number in missing]


class Seeds(Case):
    def test_the_same_packets_are_lost_in_every_run_on_both_links(self):
        self.fault("--loss", "5%", "--seed", "7")
        for size in (64, 5000):  # one packet, five packets
            lost = self.messages("auto", "uc", 320, size)
            self.assertTrue(5 < len(lost) < 150, lost)
            for run in range(3):
                for link in LINKS:
                    self.assertEqual(self.messages(link, "uc", 320, size), lost, (run, link))
        self.fault("--seed", "8")
        self.assertNotEqual(self.messages("auto", "uc", 320, 5000), lost)

    def test_repetitions_change_nothing(self):
        """The loss follows the seed even where a reliable sender repeats packets, and acknowledgements are lost."""
        self.fault("--loss", "5%", "--corrupt", "1%", "--seed", "7")
        seen = set()
        for run in range(5):
            for link in LINKS:
                before = self.counted()
                self.assertEqual(self.messages(link, "rc", 320, 5000), [])
                after = self.counted()
                seen.add(after["lost_requests"] - before["lost_requests"])
        self.assertEqual(len(seen), 1, seen)
        self.assertGreater(seen.pop(), 50)

    def test_a_program_that_knows_nothing_of_it(self):
        self.fault("--loss", "2%", "--seed", "3")
        seen = set()
        for run in range(5):
            for link in LINKS:
                self.device.environment["VERBENA_LINK"] = link
                before = self.counted()
                pair = devices.Pair(self.device, ["ibv_rc_pingpong", "-n", "200"])
                self.assertTrue(pair.ok, pair.report())
                seen.add(self.counted()["lost_requests"] - before["lost_requests"])
        self.assertEqual(len(seen), 1, seen)
        self.assertGreater(seen.pop(), 10)


class Counters(Case):
    def test_each_kind_of_fault_counts(self):
        for words, name in ((["--duplicate", "10%"], "duplicated"), (["--reorder", "5%"], "reordered"),
                            (["--corrupt", "5%"], "corrupted"), (["--delay", "100us"], "delayed"),
                            (["--jitter", "100us"], "delayed"), (["--rate", "50MB"], "rate_limited")):
            for link in LINKS:
                with self.subTest(words=words, link=link):
                    self.fault("--clear")
                    self.fault(*words, "--data")
                    self.assertEqual(self.messages(link, "rc", 64, 2000), [])
                    counted = self.counted()
                    self.assertGreater(counted[name], 0)
                    self.assertGreaterEqual(counted["packets"], 128)
                    others = {other for other, number in counted.items() if number} - {"packets", name}
                    self.assertEqual(others, set())
                    self.assertIn(str(counted[name]), self.device.control("status").stdout)

    def test_what_they_do_to_packets(self):
        drops = lambda: self.status()["ports"][0]["drops"]  # noqa: E731
        begin = time.monotonic()
        self.fault("--rate", "60kB", "--data")
        self.assertEqual(self.messages("auto", "rc", 320, 64), [])  # the packets have 84 bytes
        self.assertGreater(time.monotonic() - begin, 0.44)
        self.fault("--clear")
        begin = time.monotonic()
        self.fault("--delay", "150ms", "--data")
        self.assertEqual(self.messages("auto", "rc", 1, 64), [])
        self.assertGreater(time.monotonic() - begin, 0.3)  # twice: the message and its acknowledgement
        self.fault("--clear")
        self.fault("--corrupt", "20%", "--data")
        self.messages("udp", "uc", 64, 64)
        self.assertGreater(drops().get("bad_icrc", 0) + drops().get("unknown_qp", 0), 0)
        self.fault("--clear")
        self.fault("--duplicate", "50%", "--data")
        before = drops().get("duplicate_request", 0)
        self.assertEqual(self.messages("auto", "rc", 64, 64), [])
        self.assertGreater(drops().get("duplicate_request", 0), before)
        self.fault("--clear")
        self.fault("--reorder", "30%", "--data")
        before = drops().get("psn_out_of_sequence", 0)
        self.assertEqual(self.messages("auto", "rc", 640, 64), [])
        self.assertGreater(drops().get("psn_out_of_sequence", 0), before)
        self.assertEqual(drops().get("ack_beyond_what_was_sent", 0), 0)  # no gap is reported once it is filled

    def test_what_is_lost_has_a_reason(self):
        self.fault("--loss", "5%")
        for link in LINKS:
            lost = len(self.messages(link, "uc", 320, 64))
            self.assertGreater(lost, 0)
        counted = self.counted()
        self.assertEqual(counted["lost"], counted["lost_requests"])
        self.assertEqual(self.status()["ports"][0]["drops"]["injected_fault"], counted["lost"])
        self.assertIn("injected_fault", self.device.control("status").stdout)

    def test_what_no_router_would_hold_is_lost(self):
        self.fault("--delay", "1000s", "--data")
        self.messages("auto", "uc", 3200, 6000)
        self.assertGreater(self.counted()["lost"], 0)

    def until(self, condition, what):
        end = time.monotonic() + devices.LIMIT
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)

    def test_one_queue_pair(self):
        """The fault lasts as long as the queue pair, and its counters can be read afterwards."""
        command = ["ib_write_bw", "-F", "-D", "60", "-p", str(devices.free_port())]
        programs = [self.device.start(command)]
        self.addCleanup(lambda: [(program.kill(), program.communicate()) for program in programs])
        self.until(lambda: devices.listens(int(command[-1])), "the server does not listen")
        programs.append(self.device.start([*command, "127.0.0.1"]))

        def writers():
            """Returns the queue pairs that send data; the others only acknowledge, with however many packets."""
            return [qp for context in self.status()["contexts"] for qp in context["qps"] if qp["sent_bytes"] > 1000000]

        self.until(lambda: len(writers()) == 1, "it does not write")
        writer = writers()[0]
        self.fault("--qp", writer["qpn"], "--duplicate", "10%")
        (fault,) = self.status()["faults"]
        self.assertEqual((fault["qpn"], fault["ended"]), (writer["qpn"], False))
        self.until(lambda: self.status()["faults"][0]["counters"]["duplicated"] > 10, "it duplicates nothing")
        for program in programs:
            program.kill()
        self.until(lambda: self.status()["faults"][0]["ended"], "its program has ended")
        self.assertGreater(self.status()["faults"][0]["counters"]["duplicated"], 10)


class InForce(unittest.TestCase):
    def test_what_is_sent_after_it_has_returned_meets_it(self):
        """The first packet after the command meets the fault, in programs that poll and in programs that sleep."""
        for link in LINKS:
            for options in ((), ("-e",)):
                with self.subTest(link=link, options=options), pingpong.Game(BUILD, STEPS) as game:
                    self.play(game, link, options)

    def play(self, game, link, options):
        status = lambda: json.loads(game.device.control("status", "--json").stdout)["devices"][0]  # noqa: E731
        received = lambda: status()["ports"][0]["counters"]["port_rcv_packets"]  # noqa: E731
        game.device.environment["VERBENA_LINK"] = link
        for run in range(5):
            server, client = game.bring_to("connected", options)
            before, was = received(), status()["ports"][0]["counters"]
            self.assertEqual(game.device.control("fault", "--loss", "100%", "--data").returncode, 0)
            for side in (client, server):
                side.tell()

            def all_is_lost(was=was):
                """The first message is the only one that is under way, with its 4 packets and their repetitions."""
                now = status()
                sent, again = (now["ports"][0]["counters"][name] - was[name]
                               for name in ("port_xmit_packets", "retransmitted_packets"))
                return now["faults"][0]["counters"]["lost_requests"] == sent and 1 <= sent - again <= 4

            game.wait_until(all_is_lost, "what is sent is not what is lost")
            self.assertEqual(received(), before, run)
            self.assertEqual(game.device.control("fault", "--clear").returncode, 0)
            game.clear()


class Devices(Case):
    emulator = ("--device", "first", "--device", "second")

    def test_only_one_device(self):
        self.fault("--device", "second", "--loss", "100%")
        self.assertEqual(self.messages("auto", "uc", 32, 64), [])
        self.fault("--device", "first", "--loss", "100%")
        self.assertEqual(len(self.messages("auto", "uc", 32, 64)), 32)
        self.fault("--device", "first", "--clear")
        self.assertEqual(self.messages("auto", "uc", 32, 64), [])
        done = self.device.control("fault", "--device", "third", "--loss", "1%")
        self.assertEqual(done.returncode, 1)
        self.assertIn('no device "third"', done.stderr)


class Management(Case):
    def rping(self, seconds):
        """Returns whether a client of rping connects within that time; it tries again until the server listens. It may
        exit with 255 after all went well, because its event thread may read a channel that its main thread has closed.
        """
        port = str(devices.free_port())
        server = self.device.start(["rping", "-s", "-a", "127.0.0.1", "-p", port, "-C", "3"])
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                done = subprocess.run(["timeout", str(seconds), *self.device.wrap(
                    ["rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", "3", "-v"])],
                    env=self.device.environment, capture_output=True, text=True, check=False)
                if done.returncode in (0, 255) and done.stdout.count("ping data: ") == 3:
                    return True
                time.sleep(0.05)
        finally:
            server.kill()
            server.communicate()
        return False

    def test_connections_meet_it_too(self):
        self.assertTrue(self.rping(60))
        self.fault("--loss", "100%", "--cm")
        self.assertFalse(self.rping(3))
        self.assertGreater(self.counted("cm")["lost"], 0)
        self.assertIsNone(self.counted("data"))
        self.fault("--clear")
        self.assertTrue(self.rping(60))
        self.fault("--loss", "100%")  # data and CM messages
        self.assertFalse(self.rping(3))
        self.fault("--clear")
        # The CM repeats a lost REQ. A late REQ is only late.
        self.fault("--delay", "20ms", "--duplicate", "50%", "--cm")
        self.assertTrue(self.rping(60))
        counted = self.counted("cm")
        self.assertGreaterEqual(counted["delayed"], 3)  # REQ, REP, RTU
        self.assertEqual(counted["lost"], 0)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    MESSAGES = sys.argv.pop(1)
    STEPS = sys.argv.pop(1)
    unittest.main()
