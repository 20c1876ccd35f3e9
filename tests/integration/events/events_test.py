#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`verbena events` tells what happens to programs, ports and faults, once and in the documented form, whatever its
readers do.

    events_test.py PREFIX PUPPET [unittest arguments]
"""

import json
import mmap
import os
import pathlib
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(TESTS / "counters"), str(TESTS / "emulator")]
import control_client as cc  # noqa: E402
import json_schema  # noqa: E402
import puppets  # noqa: E402
from puppets import LIMIT, PuppetCase  # noqa: E402

LINKS = ("udp", "auto")
KEPT = 4096
SCHEMA = json_schema.load("events")


class EventsCase(PuppetCase):
    def setUp(self):
        super().setUp()
        self.before = self.events()[-1]["seq"]

    def events(self, *words, after=0):
        done = self.device.control("events", "--json", "--after", str(after), *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return self.checked(done.stdout.splitlines())

    def checked(self, lines):
        events = [json.loads(line) for line in lines]
        for event in events:
            self.assertEqual(json_schema.wrong(event, SCHEMA), [], event)
        return events

    def news(self, kind=None):
        """Returns the events since the test began."""
        return [event for event in self.events(after=self.before) if kind in (None, event["kind"])]

    def of(self, puppet, kind):
        return [event for event in self.news(kind) if event["pid"] == puppet.process.pid]

    def only(self, puppet, kind):
        """Waits for an event of this kind, and returns it. There must be only one."""
        self.until(lambda: self.of(puppet, kind), f"no {kind}")
        found = self.of(puppet, kind)
        self.assertEqual(len(found), 1, found)
        return found[0]

    def assert_has(self, event, **wanted):
        self.assertEqual({name: event[name] for name in wanted}, wanted)

    def address(self):
        return self.device.fabric.replace(".0/24", ".1")


class Lives(EventsCase):
    def test_the_first_event(self):
        first = self.events()[0]
        self.assert_has(first, seq=1, kind="emulator_up", program="verbenad", pid=self.status()["pid"],
                        version=self.status()["version"])

    def test_opened_and_closed_in_order(self):
        puppet = self.start()
        opened = self.only(puppet, "opened")
        self.assert_has(opened, device="verbena0", program="puppet", slot=puppet.qpn >> 14)
        puppet.end()
        self.assert_has(self.only(puppet, "closed"), device="verbena0", program="puppet", slot=opened["slot"],
                        by="ibv_close_device")
        self.assertEqual([event["seq"] for event in self.news()], [self.before + 1, self.before + 2])
        self.assertLessEqual(opened["time"], self.news()[1]["time"])

    def test_an_end_without_that(self):
        puppet = self.start()
        puppet.process.stdin.close()
        puppet.process.wait(LIMIT)
        self.assertEqual(self.only(puppet, "closed")["by"], "exit")
        self.assertEqual(self.of(puppet, "died"), [])

    def test_another_program_in_its_place(self):
        puppet = self.start()
        puppet.ask("become")
        self.assertEqual(self.only(puppet, "closed")["by"], "execve")

    def test_a_program_without_descriptors(self):
        puppet = self.start()
        self.assertEqual(puppet.do("close"), "ok")
        self.assertEqual(self.only(puppet, "closed")["by"], "close")

    def test_a_death(self):
        for number in (signal.SIGKILL, signal.SIGSEGV):
            # The handler that ASan has for SIGSEGV would end the process in another way.
            options = self.device.environment.get("ASAN_OPTIONS", "") + ":handle_segv=0"
            puppet = self.start(ASAN_OPTIONS=options)
            puppet.process.send_signal(number)
            # The process is a zombie, because its parent, this process, has not waited for it yet.
            self.assert_has(self.only(puppet, "died"), program="puppet", slot=puppet.qpn >> 14, signal=number.name)
            self.assertEqual(self.of(puppet, "closed"), [])
            puppet.process.wait(LIMIT)

    def test_whoever_has_seen_it_end_reads_of_it(self):
        """A parent that has seen its child end reads all the child's events without a wait, its last errors included."""
        for _ in range(20):
            self.before = self.events()[-1]["seq"]
            first, second = self.pair()
            second.do("receive", count=10)
            second.do("state")
            second.kill()
            kinds = [event["kind"] for event in self.news() if event["pid"] == second.process.pid]
            self.assertEqual(kinds, ["opened", "connected", "connected", "qp_error", "completion_error", "died"])
            first.kill()

    def test_a_further_engine_is_no_further_context(self):
        puppet = self.start(VERBENA_ENGINES="2")
        self.assertEqual(puppet.do("another"), "ok")
        puppet.kill()
        self.only(puppet, "died")
        self.assertEqual([event["kind"] for event in self.news()], ["opened", "died"])


    def test_what_a_run_keeps(self):
        """A run keeps its own events alone, with the end of a program that died, also with an emulator that others use."""
        self.start().end()
        with tempfile.TemporaryDirectory(prefix="verbena-test-") as folder:
            for words, of in (([], []), (["--private=kept"], ["--private", "kept"]), ([], [])):
                run = subprocess.Popen([self.device.verbena, "run", *words, "--artifacts", folder, "--", puppets.PROGRAM, "rc"],
                                       env=self.device.environment, text=True, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                self.assertRegex(run.stdout.readline(), "^here ")
                os.kill(self.events(*of)[-1]["pid"], signal.SIGKILL)
                run.communicate(timeout=LIMIT)
                self.assertEqual(run.returncode, 137)
                kept = self.checked(pathlib.Path(folder, "events.jsonl").read_text().splitlines())
                self.assertEqual([event["kind"] for event in kept], ["opened", "died"])


class Connections(EventsCase):
    def test_both_sides(self):
        for link in LINKS:
            first, second = self.pair(link)
            for own, peer in ((first, second), (second, first)):
                connected = self.of(own, "connected")
                self.assertEqual([event["state"] for event in connected], ["RTR", "RTS"])
                for event in connected:
                    self.assert_has(event, device="verbena0", program="puppet", qpn=f"0x{own.qpn:06x}", type="RC",
                                    peer={"address": self.address(), "qpn": f"0x{peer.qpn:06x}"})
            first.end()
            second.end()

    def test_datagrams_have_no_peer(self):
        puppet = self.start("ud")
        puppet.do("connect")
        self.assertEqual([(event["type"], event["peer"]) for event in self.of(puppet, "connected")], [("UD", None)] * 2)

    def test_nothing_is_told_of_what_goes_well(self):
        for link in LINKS:
            first, second = self.pair(link)
            before = self.events()[-1]["seq"]
            for _ in range(20):
                second.do("receive", count=100)
                first.do("send", count=100)
                self.assertEqual(first.do("poll", count=100), " ".join("0" * 100))
                second.do("poll", count=100)
            # On a busy machine a timeout may pass over UDP.
            self.assertEqual([e for e in self.events(after=before) if e["kind"] != "timeout"], [])
            first.end()
            second.end()


class Errors(EventsCase):
    def test_a_refused_write(self):
        for link in LINKS:
            first, second = self.pair(link)
            first.do("write", rkey=0xabcdef00, address=second.address, id=77)
            self.assertNotEqual(first.do("poll"), "0")
            failed = self.only(first, "completion_error")
            self.assert_has(failed, status="IBV_WC_REM_ACCESS_ERR", opcode="RDMA_WRITE", wr_id=77, count=1, type="RC",
                            device="verbena0", program="puppet", qpn=f"0x{first.qpn:06x}",
                            peer={"address": self.address(), "qpn": f"0x{second.qpn:06x}"})
            self.assertIn("refused RDMA_WRITE with wr_id 77 of rkey 0xabcdef00", failed["explanation"])
            for puppet, reason in ((first, "refused RDMA_WRITE with wr_id 77"), (second, "no region or window of this key")):
                error = self.only(puppet, "qp_error")
                self.assert_has(error, state="ERR", qpn=f"0x{puppet.qpn:06x}", type="RC")
                self.assertIn(reason, error["reason"])
            self.assertLess(failed["seq"], self.only(first, "qp_error")["seq"])
            first.end()
            second.end()

    def test_a_receive_that_is_too_short(self):
        for link in LINKS:
            first, second = self.pair(link)
            second.do("receive", length=32, id=9)
            first.do("send", length=64)
            first.do("poll")
            failed = self.only(second, "completion_error")
            self.assert_has(failed, status="IBV_WC_LOC_LEN_ERR", opcode="RECV", wr_id=9, count=1)
            self.assertIn("does not fit into the 32 of the receive", failed["explanation"])

    def test_a_send_queue_alone(self):
        """With UD the receive queue still works."""
        puppet = self.start("ud")
        puppet.do("connect")
        puppet.do("send", lkey=0x1200, **puppet.to)
        self.assertNotEqual(puppet.do("poll"), "0")
        self.assert_has(self.only(puppet, "qp_error"), state="SQE")
        self.assert_has(self.only(puppet, "completion_error"), status="IBV_WC_LOC_PROT_ERR", opcode="SEND", wr_id=5)

    def test_four_thousand_flushed_receives_are_one_line(self):
        for link in LINKS:
            first, second = self.pair(link)
            second.do("receive", count=4000, id=12)
            self.assertEqual(second.do("state"), "ok")
            self.assertEqual(second.do("poll", count=4000), " ".join("5" * 4000))
            self.assert_has(self.only(second, "qp_error"), reason="ibv_modify_qp moved it to the error state")
            self.assert_has(self.only(second, "completion_error"), status="IBV_WC_WR_FLUSH_ERR", opcode="RECV", wr_id=12,
                            count=4000, explanation=None)
            # Flushes that follow are reported at the end of the queue pair.
            second.do("receive", count=20)
            second.do("poll", count=20)
            self.only(second, "completion_error")
            second.end()
            last = self.of(second, "completion_error")[1:]
            self.assertEqual([(event["count"], event["opcode"], event["wr_id"]) for event in last], [(20, "RECV", None)])
            first.end()

    def test_sends_that_are_flushed_one_by_one(self):
        first, second = self.pair()
        first.do("state")
        for number in range(1000):
            self.assertEqual(first.do("send", id=number), "ok")
        first.do("poll", count=1000)
        first.end()
        flushed = self.of(first, "completion_error")
        self.assertEqual([event["count"] for event in flushed], [1, 10, 100, 889])
        self.assertEqual([event["wr_id"] for event in flushed], [0, 10, 110, None])
        self.assertEqual({event["status"] for event in flushed}, {"IBV_WC_WR_FLUSH_ERR"})

    def test_no_answer(self):
        for link in LINKS:
            first, second = self.pair(link, timeout=8, retries=3)
            second.kill()
            first.do("send", id=31)
            self.assertEqual(first.do("poll"), "12")
            first.end()
            timeouts = self.of(first, "timeout")
            self.assert_has(timeouts[0], opcode="SEND", wr_id=31, qpn=f"0x{first.qpn:06x}", type="RC",
                            peer={"address": self.address(), "qpn": f"0x{second.qpn:06x}"})
            self.assertEqual(sum(event["count"] for event in timeouts), 4, "the first and three retries")
            self.assertLess(len(timeouts), 4)
            failed = self.only(first, "completion_error")
            self.assert_has(failed, status="IBV_WC_RETRY_EXC_ERR", opcode="SEND", wr_id=31, count=1)
            self.assertIn(f"process {second.process.pid} (puppet) has ended", failed["explanation"])


class Injected(EventsCase):
    def fault(self, *words):
        done = self.device.control("fault", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.addCleanup(self.device.control, "fault", "--clear")

    def test_faults(self):
        self.fault("--loss", "1%", "--delay", "2ms", "--seed", "7")
        self.fault("--inject", "drop nth=1000000", "--inject", "duplicate percent=1", "--seed", "8")
        self.fault("--device", "verbena0", "--cm", "--rate", "0")
        self.fault("--clear", "--inject", "drop nth=1000000")
        self.fault("--clear", "--data")
        kinds = ["fault_set", "fault_set", "fault_set", "fault_cleared", "fault_cleared"]
        first, second, third, fourth, last = events = self.news()
        self.assertEqual([event["kind"] for event in events], kinds)
        self.assert_has(first, device=None, qpn=None, traffic="all", rules=[], seed=7,
                        values={"loss_ppm": 10000, "delay_ns": 2000000})
        self.assert_has(second, rules=["drop nth=1000000", "duplicate percent=1"], seed=8, values={})
        self.assert_has(third, device="verbena0", traffic="cm", values={"rate_bytes_per_second": 0})
        self.assert_has(fourth, rules=["drop nth=1000000"])
        self.assert_has(last, device=None, qpn=None, traffic="data", rules=[])

    def test_a_queue_pair(self):
        puppet = self.start()
        self.fault("--qp", f"0x{puppet.qpn:06x}", "--loss", "5%", "--seed", "9")
        self.assert_has(self.news("fault_set")[0], device="verbena0", qpn=f"0x{puppet.qpn:06x}", values={"loss_ppm": 50000})

    def test_the_fault_of_a_queue_pair_ends_with_it(self):
        puppet = self.start()
        self.fault("--qp", f"0x{puppet.qpn:06x}", "--loss", "5%", "--seed", "9")

        def has_ended():
            (fault,) = json.loads(self.device.control("status", "--json").stdout)["devices"][0]["faults"]
            return fault["ended"]

        self.assertFalse(has_ended())
        self.assertEqual(puppet.do("destroy"), "ok")
        self.until(has_ended, "the fault waits for the next queue pair of this number")

    def test_what_is_refused_is_no_event(self):
        self.assertNotEqual(self.device.control("fault", "--qp", "0x123456", "--loss", "1%").returncode, 0)
        self.assertNotEqual(self.device.control("fault", "--device", "none", "--loss", "1%").returncode, 0)
        self.assertEqual(self.news(), [])

    def test_a_rule_comes_to_pass(self):
        self.start()
        self.fault("--inject", "port-down after=1ms")
        self.until(lambda: self.news("rule"), "the rule is not told")
        self.assert_has(self.news("rule")[0], rule="port-down after=1ms", matched=1)
        self.assert_has(self.news("port")[0], device="verbena0", state="DOWN", changes=["state"])
        self.device.control("port", "verbena0", "up")

    def test_ports(self):
        for word in ("down", "down", "up", "lid-change", "gid-change", "pkey-change", "sm-change"):
            self.assertEqual(self.device.control("port", "verbena0", word).returncode, 0)
        self.assertEqual([(event["state"], event["changes"]) for event in self.news("port")],
                         [("DOWN", ["state"]), ("ACTIVE", ["state"]), ("ACTIVE", ["lid"]), ("ACTIVE", ["gids"]),
                          ("ACTIVE", ["pkeys"]), ("ACTIVE", ["sm"])])

    def test_in_words(self):
        """The text of events without --json says the same."""
        first, second = self.pair()
        second.do("receive", count=3)
        second.do("state")
        self.fault("--loss", "1%", "--seed", "7")
        self.device.control("port", "verbena0", "sm-change")
        second.kill()
        self.only(second, "died")
        shown = self.device.control("events", "--after", str(self.before)).stdout
        who = rf"^\d\d:\d\d:\d\d\.\d{{6}} puppet\[{second.process.pid}\] verbena0: "
        pair = rf"RC queue pair 0x{second.qpn:06x}"
        for words in (who + rf"has opened the device, slot {second.qpn >> 14}$",
                      who + pair + rf" is in RTS, peer {self.address()} 0x{first.qpn:06x}$",
                      who + pair + r" is in ERR, peer .*: ibv_modify_qp moved it to the error state$",
                      who + pair + r": IBV_WC_WR_FLUSH_ERR of RECV with wr_id 7, 3 of them$",
                      who + r"has died( of SIGKILL)?$", r"^\S+: fault set for all traffic, loss_ppm 10000, seed 7$",
                      r"^\S+ verbena0: port ACTIVE, changed: sm$"):
            self.assertRegex(shown, re.compile(words, re.MULTILINE))
        self.assertEqual(len(shown.splitlines()), len(self.news()))


class Readers(EventsCase):
    def follow(self, *words, **more):
        process = subprocess.Popen([self.device.verbena, "events", "--follow", "--json", *words], env=self.device.environment,
                                   text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def next_of(self, process):
        return self.checked([process.stdout.readline()])[0]

    def rest_of(self, process):
        """Returns all events until the reader's end."""
        events = self.checked(process.stdout.read().splitlines())
        process.wait(LIMIT)
        return events

    def announce(self, times):
        """Makes this many events, quickly."""
        with cc.Client(self.device.environment["VERBENA_RUNTIME_DIR"], kind=cc.KIND_COMMAND) as client:
            for _ in range(times):
                client.call(cc.ANNOUNCE, cc.text("verbena0") + struct.pack("<I", 16))

    def test_follows_until_the_emulator_ends(self):
        reader = self.follow()
        self.assertEqual(self.next_of(reader)["seq"], self.events()[0]["seq"])
        later = self.follow("--after", str(self.before))
        puppet = self.start()
        puppet.end()
        self.assertEqual([self.next_of(later)["kind"] for _ in range(2)], ["opened", "closed"])
        self.device.control("down")
        last = self.rest_of(later)
        self.assertEqual((later.returncode, later.stderr.read()), (0, ""))
        self.assertEqual([event["kind"] for event in last], ["emulator_down"])
        self.assertRegex(last[0]["reason"], r"^pid \d+ asked for it$")
        self.assertEqual(self.rest_of(reader)[-1], last[0])
        self.assertEqual(self.device.control("up", "--fabric", self.device.fabric).returncode, 0)

    def test_a_number_that_there_was_not_yet(self):
        """The number comes from an earlier emulator."""
        reader = self.follow("--after", "1000000000")
        self.assertEqual(self.events(after=1000000000), [])

        def is_told():
            self.device.control("port", "verbena0", "sm-change")
            return select.select([reader.stdout], [], [], 0.2)[0]

        self.until(is_told, "nothing is told")
        self.assertEqual(self.next_of(reader)["kind"], "port")

    def test_a_killed_emulator(self):
        reader = self.follow()
        self.next_of(reader)
        os.kill(self.status()["pid"], signal.SIGKILL)
        *events, last = reader.stdout.read().splitlines()
        self.checked(events)
        sentence = "the emulator has ended without a word"
        self.assertEqual(json.loads(last), {"command": "events", "error": sentence, "exit_code": 1})
        self.assertEqual((reader.wait(LIMIT), reader.stderr.read()), (1, f"verbena: {sentence}\n"))
        self.assertEqual(self.device.control("up", "--fabric", self.device.fabric).returncode, 0)

    def test_a_pipe_that_nobody_reads_any_more(self):
        """The reader notices it without an event."""
        reader = self.follow()
        self.next_of(reader)
        reader.stdout.close()
        self.assertEqual(reader.wait(LIMIT), 0)
        self.assertEqual(reader.stderr.read(), "")
        reader.stdout = None

    def test_a_reader_who_does_not_read_holds_nobody(self):
        reader = self.follow("--after", str(self.before))
        self.announce(1)
        events = [self.next_of(reader)]
        self.announce(3 * KEPT)
        puppet = self.start()
        puppet.end()
        # The reader gets what was on its way, how many events it has missed, and what is kept.
        reaches = self.events()[-1]["seq"]
        while events[-1]["seq"] < reaches:
            events.append(self.next_of(reader))
        self.assertEqual([event["kind"] for event in events[-2:]], ["opened", "closed"])
        lost = [event for event in events if event["kind"] == "lost"]
        self.assertEqual(len(lost), 1)
        self.assert_has(lost[0], device=None, program=None, pid=None)
        self.assertGreater(lost[0]["count"], 0)
        reached = self.before
        for event in events:
            reached += lost[0]["count"] if event is lost[0] else 1
            self.assertEqual(event["seq"], reached)

    def test_so_many_are_kept(self):
        self.announce(KEPT + 20)
        events = self.events()
        self.assertEqual(len(events), KEPT + 1)
        self.assert_has(events[0], kind="lost", count=events[0]["seq"])
        self.assertEqual([event["seq"] for event in events], list(range(events[0]["seq"], events[-1]["seq"] + 1)))

    def test_a_program_that_tells_too_much_or_nonsense(self):
        """The memory of a program says how many events found no room. Nonsense in it ends only the program's own events."""
        with cc.Client(self.device.environment["VERBENA_RUNTIME_DIR"]).open_device() as client:
            size = os.fstat(client.fds[1]).st_size
            memory = mmap.mmap(client.fds[1], size)
            ring = size - 13 * mmap.PAGESIZE  # behind the positions come 48 KiB
            memory[ring + 8:ring + 16] = struct.pack("<Q", 3)
            client.send(cc.JOURNAL_WRITTEN)
            self.until(lambda: self.news("lost"), "what is lost is not told")
            self.assert_has(self.news("lost")[0], count=3, program="test", pid=os.getpid(), device="verbena0")
            for head in (8, 1 << 20, (1 << 64) - 1):
                memory[ring:ring + 8] = struct.pack("<Q", head)
                client.send(cc.JOURNAL_WRITTEN)
            puppet = self.start()
            puppet.end()
            self.only(puppet, "closed")
            self.assertEqual({event["kind"] for event in self.news()}, {"opened", "closed", "lost"})
            memory.close()

    def test_two_questions_at_once(self):
        with cc.Client(self.device.environment["VERBENA_RUNTIME_DIR"], kind=cc.KIND_COMMAND) as client:
            client.call(cc.JOURNAL_QUERY, struct.pack("<Q?", 1000000000, True))
            with self.assertRaisesRegex(cc.Refused, "the question before is being answered"):
                client.call(cc.JOURNAL_QUERY, struct.pack("<Q?", 0, False))

    def test_bad_words(self):
        for words, what in ((["--after", "x"], "--after"), (["--since", "1"], "--since"), (["--after", "-1"], "a number is wanted, not -1"),
                            (["--after", "18446744073709551616"], "a number is wanted, not 18446744073709551616")):
            done = self.device.control("events", *words)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, f"^verbena: [^\n]*{what}[^\n]*\n$")
        self.device.control("down")
        done = self.device.control("events", "--follow")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, "^verbena: no emulator is running[^\n]*\n$")
        self.assertEqual(self.device.control("up", "--fabric", self.device.fabric).returncode, 0)


if __name__ == "__main__":
    puppets.PREFIX, puppets.PROGRAM = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
