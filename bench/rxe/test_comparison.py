# SPDX-License-Identifier: BSD-2-Clause
"""Tests how the guest's output becomes a table."""

import unittest

import comparison

CMTIME = """step              total ms     max ms     min us  us / conn
create id    :        2.61       0.21      18.00      26.12
connect      :      128.40       9.90    1004.00    1284.00
disconnect   :       71.00       7.00     500.00     710.00
"""
PERFTEST = """---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 8       1000          9.10           90.00        {typical}           11.00          2.00            20.00                 90.00
---------------------------------------------------------------------------------------
"""


def output(*measurements):
    parts = [f"== {number} {side} {status}\n{text}" for number, side, status, text in measurements]
    return "rxe: kernel 6.1\n" + "".join(parts) + "== end\nemulator down\n"


class Reading(unittest.TestCase):
    def test_cmtime(self):
        self.assertEqual(comparison.connect_us(CMTIME), 1284.0)
        with self.assertRaises(comparison.parse.Unreadable):
            comparison.connect_us("cmtime: unable to resolve")

    def test_sections(self):
        found = comparison.sections(output((0, "rxe", 0, "a\n"), (1, "udp", 7, "b\n")))
        self.assertEqual(found, [(0, "rxe", 0, "\na\n"), (1, "udp", 7, "\nb\n")])

    def test_a_guest_that_broke_off(self):
        """The measurements before the end still count."""
        self.assertEqual(comparison.sections("== 0 rxe 0\na\n== 0 au"), [(0, "rxe", 0, "\na\n== 0 au")])

    def test_failures_are_told(self):
        rows = [comparison.TIMED[0]]
        text = output((0, "rxe", 0, CMTIME), (0, "auto", 1, "no device\n"), (0, "udp", 0, "nothing\n"))
        figures, failures = comparison.samples(rows, text)
        self.assertEqual(figures, {(0, "rxe"): [1284.0]})
        self.assertEqual(len(failures), 2)
        self.assertIn("ended with 1", failures[0])


class Judging(unittest.TestCase):
    def latency(self, rxe, auto, udp):
        rows = [comparison.TIMED[1]]
        measured = [(0, side, 0, PERFTEST.format(typical=value))
                    for side, values in (("rxe", rxe), ("auto", auto), ("udp", udp)) for value in values]
        figures, failures = comparison.samples(rows, output(*measured))
        self.assertEqual(failures, [])
        return comparison.table(rows, figures).splitlines()[2]

    def test_medians_and_goals(self):
        line = self.latency([9.0, 10.0, 50.0], [1.0], [6.0])
        self.assertEqual(line, "| ib_send_lat 8 B | us | 10 (9..50) | 1 | 10 | aim | 6 | 1.67 | must |  |  |  |  |")

    def test_not_reached(self):
        self.assertIn("| 4 | 2.5 | no | 8 | 1.25 | no |", self.latency([10.0], [4.0], [8.0]))

    def test_bandwidth_counts_the_other_way(self):
        row = next(row for row in comparison.TIMED if row.unit == "MB/s")
        self.assertEqual(comparison.ratio(row, 100.0, 300.0), 3.0)
        self.assertEqual(comparison.reached(row, 3.0, row.goals[0]), "must")

    def test_instructions_are_judged_as_they_are(self):
        row = comparison.COUNTED[0]
        self.assertEqual([comparison.reached(row, value, row.goals[1]) for value in (20.0, 28.0, 31.0)], ["aim", "must", "no"])

    def test_a_side_that_failed(self):
        figures = {(0, "rxe"): [10.0], (0, "udp"): [5.0]}
        self.assertIn("failed", comparison.table([comparison.TIMED[1]], figures))

    def test_the_plan_takes_turns(self):
        lines = comparison.plan(comparison.TIMED[-2:], 1).splitlines()
        self.assertEqual([line.split("|")[2] for line in lines], ["rxe", "auto", "udp", "bare", "rxe", "auto", "udp"])
        self.assertTrue(lines[0].endswith("-n 300") and lines[1].endswith("-n 1500"))
        self.assertTrue(lines[3].endswith("--only udp_stream_mb_s:4096"))

    def test_every_side_comes_after_every_other(self):
        lines = comparison.plan(comparison.TIMED[-1:], 6).splitlines()
        sides = [line.split("|")[2] for line in lines]
        self.assertEqual(sorted(sides), sorted(comparison.SIDES * 6))
        self.assertEqual(len({tuple(sides[at:at + 3]) for at in range(0, 18, 3)}), 6)
        self.assertLessEqual({("rxe", "auto"), ("rxe", "udp"), ("auto", "udp"), ("udp", "auto"), ("auto", "rxe"), ("udp", "rxe")},
                             set(zip(sides, sides[1:])))

    def test_what_udp_alone_reaches(self):
        rows = [comparison.TIMED[1], comparison.TIMED[5]]
        round_trip = '{"udp_polled_rtt_us": {"8": {"p25": 80.1, "median": 90.0}}}\n'
        figures, failures = comparison.samples(rows, output(
            (0, "rxe", 0, PERFTEST.format(typical=30.0)), (0, "bare", 0, round_trip), (1, "bare", 0, '{"udp_stream_mb_s": {"4096": 336.8}}\n')))
        self.assertEqual(failures, [])
        self.assertEqual(figures, {(0, "rxe"): [30.0], (0, "bare"): [45.0], (1, "bare"): [336.8]})
        self.assertTrue(comparison.table(rows, figures).endswith("| 45 | 0.667 |  |  |"))
        self.assertEqual(len(comparison.samples(rows, output((0, "bare", 0, "{}\n"), (1, "bare", 127, "")))[1]), 2)

    def test_what_checked_udp_reaches(self):
        rows = [comparison.TIMED[3]]
        self.assertEqual([line.split("|")[2:] for line in comparison.plan(rows, 1).splitlines()[3:]],
                         [["bare", "verbena-raw --pin --seconds 1 --only udp_polled_rtt_us:4096"],
                          ["checked", "verbena-raw --pin --seconds 1 --only udp_sealed_rtt_us:4096"]])
        figures, failures = comparison.samples(rows, output(
            (0, "rxe", 0, PERFTEST.format(typical=40.0)), (0, "checked", 0, '{"udp_sealed_rtt_us": {"4096": {"p25": 38.0, "median": 40.0}}}\n')))
        self.assertEqual(failures, [])
        self.assertTrue(comparison.table(rows, figures).endswith("|  |  | 20 | 2 |"))


if __name__ == "__main__":
    unittest.main()
