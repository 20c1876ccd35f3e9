#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests the bench's own logic: what it reads, calculates and prints. It measures nothing and asserts no times."""

import json
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from figures import measure, parse, report, rows, statistics  # noqa: E402

PINGPONG = """  local address:  LID 0x0001, QPN 0x004000, PSN 0x4ee135, GID ::
8192000 bytes in 0.02 seconds = 3891.69 Mbit/sec
1000 iters in 0.02 seconds = 16.84 usec/iter
"""
LATENCY = """ local address: LID 0x01 QPN 0x4000 PSN 0xbe2838 RKey 0x000100 VAddr 0x00555c0934d000
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 8       1000          14.90          809.83       36.94    \t       40.10       \t13.45  \t\t91.84   \t\t809.83 
---------------------------------------------------------------------------------------
"""
BANDWIDTH = """ #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      30417            0.00               1897.31\t\t   0.030357
---------------------------------------------------------------------------------------
"""


class Parsing(unittest.TestCase):
    def test_pingpong(self):
        self.assertEqual(parse.pingpong_us(PINGPONG), 16.84)

    def test_latency(self):
        self.assertEqual(parse.perftest_typical_us(LATENCY), 36.94)
        self.assertEqual(parse.perftest_columns(LATENCY)["99.9% percentile"], 809.83)

    def test_bandwidth(self):
        self.assertAlmostEqual(parse.perftest_mb_s(BANDWIDTH), 1897.31 * 1.048576)
        self.assertEqual(parse.perftest_messages_s(BANDWIDTH), 0.030357)

    def test_raw(self):
        text = '{\n  "ring_hop_us": {"8": {"p25": 0.1, "median": 0.2}},\n  "memcpy_mb_s": {"4096": 92745.1}\n}\n'
        self.assertEqual(parse.raw_figure(text, "ring_hop_us", 8), 0.2)
        self.assertEqual(parse.raw_figure(text, "memcpy_mb_s", 4096), 92745.1)

    def test_figures_behind_explanations(self):
        self.assertEqual(parse.json_figure('verbena: something\n{"qps": 2, "bytes": 7}\n', "bytes"), 7)

    def test_what_is_not_understood_is_an_error_and_no_figure(self):
        for read, text in ((parse.pingpong_us, "Couldn't connect\n"), (parse.perftest_columns, " #bytes #iterations\n"),
                           (parse.perftest_columns, ""), (parse.perftest_typical_us, BANDWIDTH.replace("1897.31", "")),
                           (parse.perftest_columns, BANDWIDTH.replace("1897.31", "nan?")),
                           (lambda t: parse.raw_figure(t, "x", 8), "{}"), (lambda t: parse.json_figure(t, "x"), "{oops\n")):
            with self.assertRaises(parse.Unreadable):
                read(text)


class Statistics(unittest.TestCase):
    def test_ratios_are_formed_in_their_round(self):
        summary = statistics.summarize([(10, 5), (30, 10), (100, 100)])
        self.assertEqual((summary.value, summary.limit, summary.ratio, summary.low, summary.high), (30, 10, 2, 1, 3))

    def test_without_a_limit(self):
        summary = statistics.summarize([(3, None), (1, None), (2, None)])
        self.assertEqual((summary.value, summary.ratio, summary.low, summary.high), (2, None, 1, 3))

    def test_nonsense_is_refused(self):
        for samples in ([], [(1, 0)]):
            with self.assertRaises(ValueError):
                statistics.summarize(samples)

    def test_judgement(self):
        self.assertEqual([statistics.judge(x, True, 1.3, 1.15) for x in (1.1, 1.15, 1.2, 1.3, 1.31)],
                         ["aim", "aim", "must", "must", "no"])
        self.assertEqual([statistics.judge(x, False, 0.6, 0.85) for x in (0.9, 0.7, 0.5)], ["aim", "must", "no"])
        self.assertEqual(statistics.judge(1.5, True, 2, None), "must")
        self.assertEqual(statistics.judge(0, True, None, None), "")


class Rows(unittest.TestCase):
    def test_limits(self):
        raw = {("ring_hop_us", 8): 0.2, ("udp_polled_rtt_us", 8): 6}
        read = lambda name, size: raw[name, size]  # noqa: E731
        self.assertEqual(rows.limit_of("ring_hop_us:8", read), 0.2)
        self.assertEqual(rows.limit_of("ring_hop_us:8 * 2", read), 0.4)
        self.assertEqual(rows.limit_of("udp_polled_rtt_us:8 / 2", read), 3)
        with self.assertRaises(ValueError):
            rows.limit_of("ring_hop_us", read)

    def test_the_table_is_sound(self):
        names = [row.name for row in rows.ROWS]
        self.assertEqual(len(names), len(set(names)))
        for row in rows.ROWS:
            for text in row.limits:
                rows.limit_of(text, lambda name, size: 1.0)
            if row.against:
                self.assertLess(names.index(row.against), names.index(row.name))
            self.assertFalse(row.limits and row.against)
            if row.aim is not None:
                self.assertTrue(row.aim <= row.must if row.lower_is_better else row.aim >= row.must, row.name)

    def test_a_choice_brings_what_it_is_held_against(self):
        names = [row.name for row in rows.chosen("1024 QPs, UDP")]
        self.assertEqual(names, ["ib_write_bw 8 KiB, 1 QP, UDP", "ib_write_bw 8 KiB, 1024 QPs, UDP"])

    def test_raw_knows_every_limit(self):
        source = (HERE / "raw" / "main.cpp").read_text()
        for row in rows.ROWS:
            for text in row.limits:
                name, size = text.split()[0].split(":")
                self.assertRegex(source, rf'"{name}", {{[^}}]*\b{size}\b', text)


class FakeBench:
    """Notes what it is asked for."""

    def __init__(self, broken=()):
        self.asked, self.broken = [], broken

    def raw(self, name, size, processors):
        self.asked.append(f"{name}:{size}" + (f" on {processors}" if processors else ""))
        return 2.0

    def value(self, row):
        self.asked.append(row.name)
        if row.name in self.broken:
            raise measure.Failed("it ended with 7")
        return 6.0


class Rounds(unittest.TestCase):
    def row(self, name, **more):
        return rows.Row(name, "us", "true", parse.pingpong_us, **more)

    def test_a_limit_is_measured_just_before_its_first_row(self):
        wanted = [self.row("a"), self.row("b", limits=("x:8",)), self.row("c", limits=("y:8", "x:8"))]
        bench = FakeBench()
        results = measure.run_round(bench, wanted, True, lambda row: None)
        self.assertEqual(bench.asked, ["a", "x:8", "b", "y:8", "c"])
        self.assertEqual(results, {"a": (6, None), "b": (6, 2), "c": (6, 2)})

    def test_a_limit_is_bound_as_its_row_is(self):
        wanted = [self.row("a", limits=("x:8",)), self.row("b", limits=("x:8",), processors=2),
                  self.row("c", limits=("x:8",), processors=1), self.row("d", limits=("x:8",), processors=2)]
        bench = FakeBench()
        measure.run_round(bench, wanted, True, lambda row: None)
        self.assertEqual(bench.asked, ["x:8", "a", "x:8 on 2", "b", "x:8 on 1", "c", "d"])

    def test_once(self):
        wanted = [self.row("a", once=True), self.row("b")]
        self.assertEqual(list(measure.run_round(FakeBench(), wanted, False, lambda row: None)), ["b"])

    def test_a_failure_leaves_the_others_alone(self):
        wanted = [self.row("a"), self.row("b", against="a"), self.row("c")]
        results = measure.run_round(FakeBench(broken=["a"]), wanted, True, lambda row: None)
        self.assertEqual(results, {"a": "it ended with 7", "b": "it ended with 7", "c": (6, None)})


class Reports(unittest.TestCase):
    def test_table_and_json(self):
        measured = rows.Row("p", "us", "x", None, limits=("l:8",), must=3, aim=1)
        entries = [report.entry(measured, [(10, 5), (30, 10)], ""), report.entry(measured, [], "it died\nhorribly"),
                   report.entry(rows.Row("m", "M/s", "x", None, lower_is_better=False), [(123.4, None)], "")]
        self.assertEqual(report.table(entries).splitlines()[2:],
                         ["| p | 20 us | 7.5 | 2.5 (2..3) | ≤ 3 | ≤ 1 | must |", "| p | failed: it died | | | | | |",
                          "| m | 123 M/s | - | - |  |  |  |"])
        self.assertEqual(json.loads(json.dumps(entries))[0]["samples"], [[10, 5], [30, 10]])


class CommandLine(unittest.TestCase):
    def run_bench(self, *words):
        return subprocess.run([HERE / "run", *words], capture_output=True, text=True, check=False)

    def test_list(self):
        self.assertEqual(self.run_bench("--list").stdout.splitlines(), [row.name for row in rows.ROWS])
        self.assertEqual(self.run_bench("--list", "--rows", "idle|silent").stdout, "silent pair, 10 s\n")

    def test_what_is_missing_is_said(self):
        done = self.run_bench("--prefix", "/nonexistent")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no bin/verbena in /nonexistent", done.stderr)


if __name__ == "__main__":
    unittest.main()
