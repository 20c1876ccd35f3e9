# SPDX-License-Identifier: BSD-2-Clause
"""Says what bench/rxe compares, and makes a table of the guest's output. Pure.

A row is measured on three sides in turn: rxe (the kernel's device with itself), auto and udp (Verbena with itself over that link).
"""

import dataclasses
import itertools
import json
import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from figures import parse  # noqa: E402

SIDES = ("rxe", "auto", "udp")
# Measurements without a device: UDP alone, and UDP with a copy and a checksum on either side.
ALONE = ("bare", "checked")
PERFTEST = "-d {D} -x {G} -p {P} -F -m 4096"
# The emulated processors translate a process's own code during its first 150 messages, which take
# up to six times as long. The kernel's code stays translated from one process to the next.
WARM = 10000


def bare(output):
    """Returns the one figure of verbena-raw --only."""
    try:
        ((figure,),) = (sizes.values() for sizes in json.loads(output).values())
    except (ValueError, AttributeError) as error:
        raise parse.Unreadable(f"not a figure of verbena-raw: {output[-300:]}") from error
    return figure["median"] if isinstance(figure, dict) else figure


def connect_us(output):
    """Returns the microseconds that a connection takes, from cmtime's table."""
    found = re.search(r"^\s*connect\s*:.*?([\d.]+)\s*$", output, re.MULTILINE)
    if not found:
        raise parse.Unreadable(f"no 'connect' in: {output[-300:]}")
    return float(found[1])


def thousand_instructions(output):
    """Returns thousands of instructions of a round trip: the guest's clock counts an instruction as a nanosecond."""
    return parse.pingpong_us(output)


@dataclasses.dataclass(frozen=True)
class Row:
    """`goals` are what auto and udp must reach and aim at: multiples of rxe, or values if the row is `fixed`."""

    name: str
    unit: str
    words: str
    figure: object
    lower_is_better: bool = True
    goals: tuple = ((3, 10), (1.5, 2))
    kind: str = "tcp"
    more: int = 1  # multiplies the iterations for Verbena, so that it takes long enough
    iterations: int = 1000
    fixed: bool = False
    bare: str = None  # verbena-raw's name for what UDP alone reaches
    checked: str = None
    bare_parts: int = 1  # divides verbena-raw's figure (2: half a round trip)

    def alone(self):
        """Returns (side, verbena-raw's name) of each measurement without a device."""
        return [(side, name) for side, name in zip(ALONE, (self.bare, self.checked)) if name]


TIMED = (
    Row("connection by cmtime", "us", "cmtime -b {A} -p {P} -c {N}", connect_us, goals=((3, None), (3, None)),
        kind="cmtime", iterations=100),
    Row("ib_send_lat 8 B", "us", f"ib_send_lat {PERFTEST} -s 8 -n {{N}}", parse.perftest_typical_us, bare="udp_polled_rtt_us:8",
        bare_parts=2, iterations=WARM),
    Row("ib_write_lat 8 B", "us", f"ib_write_lat {PERFTEST} -s 8 -n {{N}}", parse.perftest_typical_us, bare="udp_polled_rtt_us:8",
        bare_parts=2, iterations=WARM),
    Row("ib_send_lat 4 KiB", "us", f"ib_send_lat {PERFTEST} -s 4096 -n {{N}}", parse.perftest_typical_us, bare="udp_polled_rtt_us:4096",
        checked="udp_sealed_rtt_us:4096", bare_parts=2, iterations=WARM),
    Row("ib_write_lat 4 KiB", "us", f"ib_write_lat {PERFTEST} -s 4096 -n {{N}}", parse.perftest_typical_us, bare="udp_polled_rtt_us:4096",
        checked="udp_sealed_rtt_us:4096", bare_parts=2, iterations=WARM),
    Row("ib_write_bw 64 KiB", "MB/s", f"ib_write_bw {PERFTEST} -s 65536 -n {{N}}", parse.perftest_mb_s, False, more=5,
        iterations=300, bare="udp_stream_mb_s:4096"),
    Row("ib_write_bw 8 B", "M/s", f"ib_write_bw {PERFTEST} -s 8 -n {{N}}", parse.perftest_messages_s, False, more=5,
        iterations=10000),
)
COUNTED = (
    Row("round trip of 8 B with events", "thousand instructions", "ibv_rc_pingpong -d {D} -g {G} -p {P} -e -s 8 -n {N}",
        thousand_instructions, goals=((30, 25), (30, 25)), fixed=True, bare="udp_blocking_rtt_us:8", iterations=5000),
    Row("connection by cmtime", "thousand instructions", "cmtime -b {A} -p {P} -c {N}", connect_us, goals=((3, None), (3, None)),
        kind="cmtime", iterations=100),
    Row("ib_write_bw 64 KiB", "B per thousand instructions", f"ib_write_bw {PERFTEST} -s 65536 -n {{N}}", parse.perftest_mb_s, False,
        more=5, iterations=300),
    Row("ib_write_bw 8 B", "messages per thousand instructions", f"ib_write_bw {PERFTEST} -s 8 -n {{N}}",
        parse.perftest_messages_s, False, more=5, iterations=10000),
)


def plan(rows, rounds):
    """Returns the lines that the guest carries out. Each round has the sides in another order, because the side after the kernel's
    device is sometimes slower: the emulated processors translate the kernel again."""
    orders = list(itertools.permutations(SIDES))
    lines = []
    for turn in range(rounds):
        for number, row in enumerate(rows):
            for side in orders[turn % len(orders)]:
                count = row.iterations * (1 if side == "rxe" else row.more)
                lines.append(f"{number}|{row.kind}|{side}|{row.words.replace('{N}', str(count))}")
            lines += [f"{number}|bare|{side}|verbena-raw --pin --seconds 1 --only {name}" for side, name in row.alone()]
    return "\n".join(lines)


def sections(output):
    """Returns (number, side, status, text) of each measurement, in order."""
    parts = re.split(r"^== (\d+) (\w+) (\d+)$|^== end$", output, flags=re.MULTILINE)[1:]
    return [(int(parts[i]), parts[i + 1], int(parts[i + 2]), parts[i + 3]) for i in range(0, len(parts) - 3, 4)
            if parts[i] is not None]


def samples(rows, output):
    """Returns {(number, side): [figures]}, and what failed in words."""
    figures, failures = {}, []
    for number, side, status, text in sections(output):
        row = rows[number]
        try:
            if status != 0:
                raise parse.Unreadable(f"ended with {status}: {text[-300:]}")
            figure = bare(text) / row.bare_parts if side in ALONE else row.figure(text)
            figures.setdefault((number, side), []).append(figure)
        except parse.Unreadable as error:
            failures.append(f"{row.name}, {side}: {error}")
    return figures, failures


def ratio(row, rxe, ours):
    """Returns how many times better `ours` is than rxe."""
    return rxe / ours if row.lower_is_better else ours / rxe


def reached(row, figure, goals):
    """Returns which goal the figure reaches: 'aim', 'must' or 'no'; '' if there is no goal."""
    must, aim = goals
    if must is None:
        return ""
    is_met = (lambda goal: figure <= goal) if row.fixed else (lambda goal: figure >= goal)
    if aim is not None and is_met(aim):
        return "aim"
    return "must" if is_met(must) else "no"


def table(rows, figures):
    """Returns the table in Markdown: medians, and behind each of Verbena's and bare UDP's how many times better than rxe's it is."""
    times = "times better"
    heads = ["row", "unit", "rxe", "auto", times, "reaches", "UDP", times, "reaches", "bare UDP", times, "checked UDP", times]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for number, row in enumerate(rows):
        rxe = figures.get((number, "rxe"))
        if not rxe:
            continue
        cells = [row.name, row.unit, _spread(rxe)]
        for side, goals in zip(SIDES[1:], row.goals):
            ours = figures.get((number, side))
            if not ours:
                cells += ["failed", "", ""]
                continue
            median = statistics.median(ours)
            better = ratio(row, statistics.median(rxe), median)
            cells += [_spread(ours), f"{better:.3g}", reached(row, median if row.fixed else better, goals)]
        for side in ALONE:
            alone = figures.get((number, side))
            cells += [_spread(alone), f"{ratio(row, statistics.median(rxe), statistics.median(alone)):.3g}"] if alone else ["", ""]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _spread(values):
    median = f"{statistics.median(values):.4g}"
    return median if len(values) == 1 else f"{median} ({min(values):.4g}..{max(values):.4g})"
