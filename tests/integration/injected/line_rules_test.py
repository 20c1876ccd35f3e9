# SPDX-License-Identifier: BSD-2-Clause
"""Rules about a line, and about the calls of a program.

    line_rules_test.py BUILD EXCHANGE MESSAGES STEPS [CASE ...]
"""

import errno
import os
import pathlib
import time

import ruling
from ruling import LINKS, Case


class Lines(Case):
    """What cut and rate= do to packets, repetitions included."""

    def run_beside(self, link, program, *words):
        """Runs another program of this folder. Returns what it prints."""
        self.device.environment["VERBENA_LINK"] = link
        done = self.device.run([pathlib.Path(ruling.EXCHANGE).with_name(program), *words])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_cut_for_good(self):
        for link in LINKS:
            for rule, received in (("qp=client:1 nth=2", [0]), ("program=client opcode=SEND nth=2 unit=message", [0]),
                                   ("qp=server:1 direction=response nth=2", [0, 1])):
                with self.subTest(link=link, rule=rule):
                    self.inject("cut " + rule)
                    ends = self.exchange(link, "-t", 12, "-r", 2, "send", 3, 64)
                    client, server = ends["client"], ends["server"]
                    self.assertEqual(client["statuses"], ["SUCCESS", "RETRY_EXC_ERR", "WR_FLUSH_ERR"])
                    self.assertEqual((server["received"], server["state"]), (received, "RTS"))
                    self.assertGreater(self.fired()[0], 2)

    def test_cut_for_a_while(self):
        for link in LINKS:
            for rule, least in (("qp=client:1 nth=2 for=300ms", 0.3), ("program=server until=500ms", 0.4)):
                with self.subTest(link=link, rule=rule):
                    self.inject("cut " + rule)
                    begin = time.monotonic()
                    ends = self.exchange(link, "-t", 17, "-b", "send", 4, 64)
                    self.assertGreater(time.monotonic() - begin, least)
                    self.all_is_well(ends, 4)
                    self.assertEqual(ends["server"]["received"], [0, 1, 2, 3])
                    self.assertGreater(self.fired()[0], 0)

    def test_a_slow_line(self):
        """40 messages of 80 bytes each are 25 kbit."""
        for link in LINKS:
            self.inject("rate=100kbit qp=client:1")
            begin = time.monotonic()
            ends = self.exchange(link, "-t", 20, "-b", "send", 40, 64)
            self.assertGreater(time.monotonic() - begin, 0.25)
            self.all_is_well(ends, 40)
            self.assertEqual(ends["server"]["received"], list(range(40)))
            self.assertGreaterEqual(self.fired()[0], 40)  # packets that the sender repeats go over the line as well

    def test_engines_share_a_line(self):
        """Four queue pairs, of which each may have an engine of its own, send 128 packets of 1056 bytes."""
        self.device.environment["VERBENA_ENGINES"] = "8"
        for link in LINKS:
            for words in (("--inject", "rate=500kB direction=request"), ("--rate", "500kB", "--data")):
                self.fault("--clear")
                self.fault(*words)
                took = self.run_beside(link, "lines", "4", "32", "1024")
                self.assertGreater(float(took), 128 * 1056 / 500, (link, words))

    def test_a_fault_of_a_queue_pair_leaves_the_line_shared(self):
        """Four queue pairs send 2,048 packets of 1056 bytes. Lines of their own would carry them in half the time."""
        seconds = 2048 * 1056 / 1e6
        for own, takes in (("--corrupt", "0.0001%"), (seconds, 9)), (("--rate", "1MB"), (0, seconds * 0.75)):
            self.fault("--clear")
            self.fault("--rate", "1MB", "--data")
            program = self.device.start([pathlib.Path(ruling.EXCHANGE).with_name("lines"), "4", "64", "8192"])
            for pair in self.senders(4):
                self.fault(*own, "--qp", pair)
            took = float(program.communicate(timeout=60)[0]) / 1e3
            self.assertEqual(program.returncode, 0)
            self.assertTrue(takes[0] < took < takes[1], (own, took))

    def senders(self, count):
        """Waits until so many queue pairs have sent something. Returns their numbers."""
        while True:
            pairs = [pair for context in self.status()["devices"][0]["contexts"] for pair in context["qps"]]
            sent = [pair["qpn"] for pair in pairs if pair["sent_bytes"] > 10000]
            if len(sent) == count:
                return sent
            time.sleep(0.01)

    def test_a_long_line_keeps_the_order(self):
        """What waits for room in a full ring leaves before what comes later."""
        self.fault("--delay", "5ms")
        for link in LINKS:
            self.assertEqual(self.run_beside(link, "order", "16", "4000", "1000"), "lost 0 reordered 0\n", link)

    def test_a_line_that_changes_its_speed_keeps_the_order(self):
        """Meanwhile more is sent than the line carries, so much is lost."""
        program = pathlib.Path(ruling.EXCHANGE).with_name("order")
        for link in LINKS:
            self.device.environment["VERBENA_LINK"] = link
            self.fault("--rate", "1MB", "--data")
            running = self.device.start([program, "8", "10000", "1000"])
            self.senders(8)
            for words in ("--rate", "40MB", "--data"), ("--rate", "20MB", "--data"), ("--clear",):
                self.fault(*words)
            said = running.communicate(timeout=60)[0]
            self.assertRegex(said, r"^lost \d+ reordered 0\n$", link)

    def test_a_slow_line_is_no_silence_of_the_peer(self):
        """6 messages of 64 KiB take two seconds. No retry is left after 50 ms."""
        for link in LINKS:
            for words in ("--rate", "200kB", "--data"), ("--inject", "rate=200kB qp=client:1"):
                self.fault("--clear")
                self.fault(*words)
                self.all_is_well(self.exchange(link, "-t", 12, "-r", 2, "-b", "write", 6, 65536), 6)

    def test_both_links_cut_at_the_same_packet(self):
        seen = set()
        for run in range(5):
            for link in LINKS:
                self.inject("cut direction=request opcode=SEND nth=3 unit=message")
                ends = self.exchange(link, "-t", 15, "-r", 1, "-b", "send", 6, 3000)
                # One ACK may acknowledge several messages, so the sender may or may not hear of the first two.
                self.assertIn("RETRY_EXC_ERR", ends["client"]["statuses"][:3])
                seen.add(tuple(ends["server"]["received"]))
        self.assertEqual(seen, {(0, 1)})


class Calls(Case):
    """Calls of the verbs that a rule with fail= lets fail."""

    def test_which_call(self):
        rule = "fail=ENOMEM call=ibv_post_send program=client "
        for which, refused in (("nth=2", [1]), ("first=2", [0, 1]), ("nth=3+", [2, 3]), ("every=2", [1, 3]), ("nth=5", []),
                               ("qp=client:1 nth=1", [0]), ("qp=client:2", []), ("after=100s", [])):
            with self.subTest(which=which):
                self.inject(rule + which)
                ends = self.exchange("auto", "write", 4, 64)
                wanted = ["ENOMEM" if number in refused else "SUCCESS" for number in range(4)]
                self.assertEqual((ends["client"]["statuses"], ends["client"]["state"]), (wanted, "RTS"))
                self.assertEqual(ends["server"]["changed"], [number for number in range(4) if number not in refused])
                self.assertEqual(self.fired(), [len(refused)])

    def test_a_call_that_is_made_again(self):
        seen = set()
        for run in range(5):
            for link in LINKS:
                self.inject("fail=EAGAIN call=ibv_post_send percent=40", "fail=ENOMEM call=ibv_post_recv nth=2 qp=server:1",
                            more=("--seed", "7"))
                self.all_is_well(self.exchange(link, "-a", "-b", "send", 8, 64), 8)
                seen.add(tuple(self.rules().items()))
        self.assertEqual(len(seen), 1, seen)
        (_, (posted, refused)), (_, received) = seen.pop()
        self.assertEqual((posted - refused, received), (8, (9, 1)))
        self.assertGreater(refused, 1)
        self.assertRegex(self.device.control("status").stdout, r"rule fail=EAGAIN .*: matched \d+ calls, fired \d+ times")

    def test_a_receive_that_cannot_be_posted(self):
        self.inject("fail=ENOMEM call=ibv_post_recv nth=2+ program=server")
        ends = self.exchange("auto", "-n", 1, "send", 3, 64)
        self.assertEqual(ends["client"]["statuses"], ["SUCCESS", "RNR_RETRY_EXC_ERR", "WR_FLUSH_ERR"])
        self.assertEqual((ends["server"]["refused"], ends["server"]["received"]), (["ENOMEM", "ENOMEM"], [0]))

    def test_a_program_that_knows_nothing_of_it(self):
        self.device.environment["VERBENA_LOG"] = "explain"
        for verb, error, told in (("ibv_alloc_pd", "ENOMEM", "Couldn't allocate PD"), ("ibv_reg_mr", "EFAULT", "Couldn't register MR"),
                                  ("ibv_create_cq", "ENOMEM", "Couldn't create CQ"), ("ibv_create_qp", "EMFILE", "Couldn't create QP"),
                                  ("ibv_modify_qp", "EINVAL", "Failed to modify QP to INIT")):
            with self.subTest(verb=verb):
                self.inject(f"fail={error} call={verb}")
                done = self.device.run(["ibv_rc_pingpong"])
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(told, done.stderr)
                self.assertIn(f"{verb}: fails with {error}, as a rule (fail=) asks", done.stderr)
                self.assertEqual(self.fired(), [1])
        self.inject("fail=EIO call=ibv_reg_mr program=another")
        self.assertEqual(self.device.run(["ibv_devinfo", "-v"]).returncode, 0)

    def test_a_poll(self):
        self.inject("fail=EIO call=ibv_poll_cq nth=2 program=client")
        done = self.device.run([ruling.EXCHANGE, "send", "2", "64"])
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("ibv_poll_cq: Input/output error", done.stderr)
        self.assertEqual(self.rules(), {"fail=EIO call=ibv_poll_cq nth=2 program=client": (2, 1)})

    def test_in_a_file(self):
        file = self.device.folder / "calls.toml"
        file.write_text('[[event]]\ndo = "fail=ENOMEM"\ncall = "ibv_post_send"\nnth = 2\nprogram = "client"\n', encoding="utf-8")
        self.fault("--scenario", str(file))
        self.assertEqual(list(self.rules()), ["fail=ENOMEM call=ibv_post_send nth=2 program=client"])
        self.assertEqual(self.exchange("auto", "write", 3, 64)["client"]["statuses"], ["SUCCESS", "ENOMEM", "SUCCESS"])

    def test_only_while_the_rule_is_there(self):
        """A program that opens the device after the rule is gone is not affected."""
        self.inject("fail=EIO call=ibv_create_qp")
        self.fault("--clear")
        self.all_is_well(self.exchange("auto", "send", 1, 64), 1)


class ConnectionCalls(Case):
    """Calls of librdmacm, for which the emulator carries out the rules."""

    def setUp(self):
        super().setUp()
        self.program = str(pathlib.Path(ruling.BUILD, "bin", "cm_events_program"))

    def is_well(self, case, matched):
        done = self.device.run([self.program, case])
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, "done"), done.stderr)
        self.assertEqual(list(self.rules().values()), [(matched, 0)])

    def fails(self, case, call, error):
        done = self.device.run([self.program, case])
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]),
                         (1, f"failed: {call}: {os.strerror(getattr(errno, error))}"), done.stderr)
        self.assertIn(f"rdma_cm: {call}: fails with {error}, as a rule (fail=) asks", done.stderr)

    def test_which_call(self):
        for call, error, case in (
                ("rdma_create_id", "ENOMEM", "life"), ("rdma_bind_addr", "EADDRINUSE", "life"), ("rdma_listen", "EADDRINUSE", "life"),
                ("rdma_resolve_addr", "ENETUNREACH", "life"), ("rdma_resolve_route", "EHOSTUNREACH", "life"),
                ("rdma_connect", "ETIMEDOUT", "life"), ("rdma_accept", "ECONNRESET", "life"), ("rdma_disconnect", "ENOTCONN", "life"),
                ("rdma_reject", "EIO", "rejected"), ("rdma_set_option", "EINVAL", "type_of_service"),
                ("rdma_join_multicast", "ENOMEM", "multicast"), ("rdma_leave_multicast", "EAGAIN", "multicast"),
                ("rdma_migrate_id", "ENOMEM", "moved"), ("rdma_notify", "EINVAL", "moved")):
            with self.subTest(call=call):
                self.inject(f"fail={error} call={call} nth=1")
                self.fails(case, call, error)
                self.assertEqual(list(self.rules().values()), [(1, 1)])

    def test_each_process_counts_its_own(self):
        self.inject("fail=EIO call=rdma_accept nth=2")  # the client's confirmation does not count
        self.is_well("life", 1)
        self.is_well("established", 2)
        self.inject("fail=EIO call=rdma_disconnect nth=2")
        self.fails("life", "rdma_disconnect", "EIO")
        self.assertEqual(list(self.rules().values()), [(2, 1)])

    def test_of_whom_and_when(self):
        for condition in ("program=another", "after=100s"):
            self.inject("fail=EIO call=rdma_connect " + condition)
            self.is_well("life", 0)
        self.device.environment["VERBENA_ROLE"] = "another"
        self.inject("fail=EIO call=rdma_connect program=another")
        self.fails("life", "rdma_connect", "EIO")

    def test_a_run_that_requires_it(self):
        for rule, code in (("fail=EIO call=rdma_reject", 3), ("fail=EIO call=rdma_listen", 1)):
            done = self.device.control("run", "--private", "--inject", rule, "--require-fired", "--", self.program, "life")
            self.assertEqual(done.returncode, code, done.stderr)


if __name__ == "__main__":
    ruling.main()
