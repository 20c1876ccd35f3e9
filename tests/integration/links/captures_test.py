# SPDX-License-Identifier: BSD-2-Clause
"""`verbena capture` beside programs of rdma-core and perftest: tshark reads the file, and neither a reader of the file
nor a disk ever delays a program.

    captures_test.py BIN
"""

import contextlib
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import unittest

import pairs
from pairs import LIMIT, Pairs

FIELDS = ["frame.time_epoch", "frame.interface_name", "frame.comment", "infiniband.bth.opcode",
          "infiniband.bth.psn", "infiniband.bth.destqp", "frame.packet_flags_direction",
          "infiniband.mad.attributeid"]
SEND_ONLY, ACKNOWLEDGE, UD_SEND_ONLY = "4", "17", "100"


class Packet:
    def __init__(self, line):
        (self.time, self.interface, self.comment, self.opcode, self.psn, self.destination,
         self.direction, self.attribute) = line.split("\t")


def packets_in(path):
    """Returns the packets that tshark reads. tshark must find nothing wrong."""
    words = ["tshark", "-r", path, "-T", "fields"]
    for field in FIELDS:
        words += ["-e", field]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT * 4, check=True)
    wrong = [line for line in done.stderr.splitlines() if not line.startswith("Running as user")]
    if wrong:
        raise AssertionError(wrong)
    return [Packet(line) for line in done.stdout.splitlines()]


def statistics_in(path):
    """Returns the last statistics (received, dropped) of each interface, by its name."""
    names, statistics = [], {}
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        options = {1: 16, 5: 20}.get(kind)
        while options is not None and options < length - 4:
            code, size = struct.unpack_from("<HH", data, at + options)
            value = data[at + options + 4:at + options + 4 + size]
            options += 4 + (size + 3) // 4 * 4
            if kind == 1 and code == 2:
                names.append(value.decode())
            if kind == 5:
                name = names[struct.unpack_from("<I", data, at + 8)[0]]
                if code in (4, 5):
                    statistics.setdefault(name, {})[code] = struct.unpack("<Q", value)[0]
        at += length
    return {name: (values[4], values[5]) for name, values in statistics.items()}


class CapturesTest(Pairs):
    devices = ["--device", "verbena0", "--device", "other"]

    def capture(self, *words, before=None, **more):
        """Starts a capture, and returns once it runs."""
        process = subprocess.Popen([pairs.BIN + "/verbena", "capture", *words], env=self.env,
                                   stderr=subprocess.PIPE, text=True, preexec_fn=before, **more)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertIn("capturing", process.stderr.readline())
        return process

    def end_capture(self, process):
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(LIMIT), 0, process.stderr.read())

    @contextlib.contextmanager
    def captured(self, *words):
        """Yields the file's path. After the block the file is complete."""
        path = self.dir + "/packets.pcapng"
        process = self.capture(path, *words)
        yield path
        self.end_capture(process)

    def assert_in_order(self, packets):
        times = [packet.time for packet in packets]
        self.assertEqual(times, sorted(times))

    def test_every_packet_is_in_it_once_from_the_first_on(self):
        count = 20
        for link in ("udp", "auto"):
            for _ in range(4):
                with self.captured() as path:
                    sides = self.pair(link, "ibv_rc_pingpong", "-s", "64", "-n", str(count))
                    self.ends_well(*sides)
                packets = packets_in(path)
                self.assert_in_order(packets)
                for side in sides:
                    name = f"ibv_rc_pingpong[{side.pid}]"
                    sent = [p for p in packets if p.interface == name]
                    # On a loaded machine some packets are repeated.
                    self.assertEqual(len({p.psn for p in sent if p.opcode == SEND_ONLY}), count, link)
                    other = next(s.pid for s in sides if s is not side)
                    self.assertRegex(sent[0].comment, rf"^QP 0x\w+ of ibv_rc_pingpong\[{side.pid}\] to "
                                                      rf"QP 0x\w+ of ibv_rc_pingpong\[{other}\]$")
                    self.assertEqual({p.comment for p in sent[1:]}, {""})
                for name, (received, dropped) in statistics_in(path).items():
                    self.assertEqual(dropped, 0)
                    self.assertEqual(received, sum(p.interface == name for p in packets))

    def test_what_it_says_at_its_end(self):
        path = self.dir + "/packets.pcapng"
        for link in ("udp", "auto"):
            process = self.capture(path, "--json", stdout=subprocess.PIPE)
            self.ends_well(*self.pair(link, "ibv_rc_pingpong", "-n", "20"))
            process.send_signal(signal.SIGINT)
            said, in_words = process.communicate(timeout=LIMIT)
            self.assertEqual(process.returncode, 0, in_words)
            count = len(packets_in(path))
            self.assertGreaterEqual(count, 40)
            self.assertEqual(json.loads(said), {"command": "capture", "file": path, "packets": count, "left_out": 0})
            self.assertEqual(in_words, f"{count} packets captured, 0 left out\n")

    def test_each_signal_that_ends_it_leaves_a_complete_file(self):
        path = self.dir + "/packets.pcapng"
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            process = self.capture(path)
            self.ends_well(*self.pair("auto", "ibv_rc_pingpong", "-n", "20"))
            process.send_signal(number)
            self.assertEqual(process.wait(LIMIT), 0, number)
            count = len(packets_in(path))
            self.assertGreaterEqual(count, 40)
            self.assertEqual(process.stderr.read(), f"{count} packets captured, 0 left out\n")
            self.assertTrue(statistics_in(path))

    def test_one_that_shall_outlive_its_terminal(self):
        """nohup has it ignore SIGHUP."""
        process = self.capture(self.dir + "/packets.pcapng", before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        self.ends_well(*self.pair("auto", "ibv_rc_pingpong", "-n", "20"))
        self.end_capture(process)
        self.assertGreaterEqual(len(packets_in(self.dir + "/packets.pcapng")), 40)

    def test_both_ends(self):
        for link in ("udp", "auto"):
            with self.captured("--both-ends") as path:
                self.ends_well(*self.pair(link, "ibv_rc_pingpong", "-s", "64", "-n", "10"))
            packets = packets_in(path)
            self.assert_in_order(packets)
            sent, received = ({(p.destination, p.psn) for p in packets
                               if p.opcode == SEND_ONLY and int(p.direction, 16) & 3 == direction}
                              for direction in (2, 1))
            self.assertEqual(len(sent), 20)
            self.assertEqual(sent, received)

    def test_one_device(self):
        """The capture also has packets from another device to this one, although the other device is not captured."""
        for link in ("udp", "auto"):
            with self.captured("--device", "other") as path:
                self.ends_well(*self.pair(link, "ibv_rc_pingpong", "-d", "verbena0", "-n", "10"))
                sides = self.pair(link, "ibv_rc_pingpong", "-s", "64", "-n", "10", ends=(["-d", "other"], ["-d", "verbena0"]))
                self.ends_well(*sides)
            packets = packets_in(path)
            self.assert_in_order(packets)
            self.assertEqual({p.interface for p in packets}, {f"ibv_rc_pingpong[{sides[0].pid}]"})
            for direction in (1, 2):
                psns = {p.psn for p in packets if p.opcode == SEND_ONLY and int(p.direction, 16) & 3 == direction}
                self.assertEqual(len(psns), 10)

    def test_connections_are_in_it(self):
        with self.captured() as path:
            self.rping("udp", "-a", self.fabric.replace(".0/24", ".1"), count=3)
        packets = packets_in(path)
        self.assert_in_order(packets)
        managed = [p for p in packets if p.opcode == UD_SEND_ONLY]
        self.assertEqual({p.interface.split("[")[0] for p in managed}, {"verbenad"})
        # ConnectRequest, ConnectReply, ReadyToUse, DisconnectRequest.
        attributes = [int(p.attribute, 16) for p in managed]
        for attribute in (0x10, 0x13, 0x14, 0x15):
            self.assertIn(attribute, attributes)

    def test_what_a_fault_took_says_so(self):
        for link in ("udp", "auto"):
            self.assertEqual(self.verbena("fault", "--loss", "20%", "--corrupt", "20%").returncode, 0)
            self.addCleanup(self.verbena, "fault", "--clear")
            with self.captured() as path:
                # A side may lose its last acknowledgement after its peer has ended, and fail.
                for side in self.pair(link, "ibv_rc_pingpong", "-s", "64", "-n", "50"):
                    side.communicate(timeout=LIMIT)
            self.assertEqual(self.verbena("fault", "--clear").returncode, 0)
            packets = packets_in(path)
            lost = [p for p in packets if "lost: an injected fault" in p.comment]
            damaged = [p for p in packets if "damaged by an injected fault" in p.comment]
            self.assertGreater(len(lost), 5)
            self.assertGreater(len(damaged), 5)
            # All lost packets but the last came again.
            taken = {(p.destination, p.psn) for p in lost + damaged if p.opcode == SEND_ONLY}
            arrived = {(p.destination, p.psn) for p in packets if "fault" not in p.comment}
            self.assertLessEqual(len(taken - arrived), 1)

    def test_what_a_rule_took_says_so(self):
        for link in ("udp", "auto"):
            rules = ("drop opcode=SEND nth=3", "nak=rnr opcode=SEND nth=5", "delay=1ms opcode=SEND nth=7")
            done = self.verbena("fault", *(word for rule in rules for word in ("--inject", rule)))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.addCleanup(self.verbena, "fault", "--clear")
            with self.captured() as path:
                self.ends_well(*self.pair(link, "ibv_rc_pingpong", "-s", "64", "-n", "10"))
            self.assertEqual(self.verbena("fault", "--clear").returncode, 0)
            comments = [p.comment for p in packets_in(path)]
            # The programs send one such packet on each side.
            self.assertEqual(sum("lost: an injected fault" in comment for comment in comments), 2)
            self.assertEqual(sum("by an injected rule" in comment for comment in comments), 4)

    def test_a_packet_that_a_rule_still_holds_back_is_not_called_lost(self):
        for link in ("udp", "auto"):
            done = self.verbena("fault", "--inject", "delay=300ms opcode=SEND nth=3")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.addCleanup(self.verbena, "fault", "--clear")
            with self.captured() as path:
                self.ends_well(*self.pair(link, "ibv_rc_pingpong", "-s", "64", "-n", "5"))
            self.assertEqual(self.verbena("fault", "--clear").returncode, 0)
            comments = [p.comment for p in packets_in(path)]
            self.assertEqual([c for c in comments if "lost" in c], [])
            # Each side sends the packet again after its time-out of 67 ms.
            self.assertGreater(sum("injected rule still holds this packet back" in c for c in comments), 1)

    def test_a_reader_that_stands_still_holds_nobody_up(self):
        path = self.dir + "/stalled.pcapng"
        for link in ("udp", "auto"):
            with open(path, "wb") as file:
                reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=file)
            capture = self.capture("-", stdout=reader.stdin)
            reader.stdin.close()
            reader.send_signal(signal.SIGSTOP)
            sides = self.pair(link, "ibv_rc_pingpong", "-s", "4096", "-n", "8000")
            self.ends_well(*sides)
            late = self.pair(link, "ibv_rc_pingpong", "-s", "64", "-n", "10")
            self.ends_well(*late)
            reader.send_signal(signal.SIGCONT)
            self.end_capture(capture)
            self.assertEqual(reader.wait(LIMIT), 0)
            packets = packets_in(path)
            self.assert_in_order(packets)
            statistics = statistics_in(path)
            for name, (received, dropped) in statistics.items():
                self.assertEqual(received - dropped, sum(p.interface == name for p in packets), name)
            for side in sides:
                self.assertGreater(statistics[f"ibv_rc_pingpong[{side.pid}]"][1], 0)
            for side in late:
                self.assertEqual(statistics[f"ibv_rc_pingpong[{side.pid}]"][1], 0)

    def test_it_ends_with_the_program_behind_the_pipe(self):
        reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
        capture = self.capture("-", stdout=reader.stdin)
        reader.stdin.close()
        self.assertEqual(reader.wait(LIMIT), 0)
        self.assertEqual(capture.wait(LIMIT), 0)
        # After that another capture may begin.
        with self.captured():
            pass

    def test_a_file_at_its_limit_ends_the_capture_and_nothing_else(self):
        path = self.dir + "/limited.pcapng"
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        for link in ("udp", "auto"):
            capture = self.capture(path, before=limit)
            self.ends_well(*self.pair(link, "ibv_rc_pingpong", "-s", "1024", "-n", "2000"))
            self.assertEqual(capture.wait(LIMIT), 1)
            self.assertRegex(capture.stderr.read(), f"verbena: cannot write {path}: File too large")
            self.assertLessEqual(os.path.getsize(path), 100_000)
            packets = packets_in(path)
            self.assertGreater(len(packets), 10)
            self.assertGreater(sum(dropped for _, dropped in statistics_in(path).values()), 0)

    def test_a_full_disk(self):
        with open("/dev/full", "wb") as full:
            capture = self.capture("-", stdout=full)
        self.ends_well(*self.pair("auto", "ibv_rc_pingpong", "-n", "10"))
        self.assertEqual(capture.wait(LIMIT), 1)
        self.assertIn("No space left on device", capture.stderr.read())

    def test_a_program_that_is_killed_tears_nothing(self):
        for link in ("udp", "auto"):
            with self.captured() as path:
                sides = self.pair(link, "ibv_rc_pingpong", "-s", "1024", "-n", "10000000")
                self.until(lambda: os.path.getsize(path) > 200_000, "nothing is captured")
                self.end(sides)
            packets = packets_in(path)
            self.assert_in_order(packets)
            self.assertEqual({f"ibv_rc_pingpong[{side.pid}]" for side in sides}, {p.interface for p in packets})


if __name__ == "__main__":
    pairs.BIN = sys.argv.pop(1)
    unittest.main()
