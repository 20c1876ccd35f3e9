# SPDX-License-Identifier: BSD-2-Clause
"""Reads figures from what programs print. Pure. Each function raises Unreadable with the words that it did not understand."""

import json
import re


class Unreadable(Exception):
    """Raised when the output has no such figure."""


def _number(text, where):
    try:
        return float(text)
    except ValueError:
        raise Unreadable(f"'{text}' is no number in: {where}") from None


def pingpong_us(output):
    """Returns the microseconds of one iteration (there and back) of an ibv_*_pingpong."""
    found = re.search(r"^\d+ iters in [\d.]+ seconds = ([\d.]+) usec/iter", output, re.MULTILINE)
    if not found:
        raise Unreadable(f"no 'usec/iter' in: {output[-300:]}")
    return _number(found[1], output)


def perftest_columns(output):
    """Returns the last row of perftest's table as {column: value}, with names without their units."""
    lines = output.splitlines()
    heads = [number for number, line in enumerate(lines) if line.strip().startswith("#bytes")]
    if not heads or heads[-1] + 1 >= len(lines):
        raise Unreadable(f"no table in: {output[-300:]}")
    # Two blanks, a bracket or a # separate the names: "#bytes #iterations   BW average[MB/sec]
    # MsgRate[Mpps]".
    names = [name for name in re.split(r"\[[^\]]*\]\s*|\s{2,}|\s*#", lines[heads[-1]].strip()) if name]
    values = lines[heads[-1] + 1].split()
    if len(names) != len(values):
        raise Unreadable(f"{len(names)} columns, {len(values)} values: {lines[heads[-1] + 1]}")
    return {name: _number(value, lines[heads[-1] + 1]) for name, value in zip(names, values)}


def perftest_typical_us(output):
    """Returns microseconds: half a round trip of ib_write_lat and ib_send_lat, a whole one of ib_read_lat and ib_atomic_lat."""
    return perftest_columns(output)["t_typical"]


def perftest_mb_s(output):
    """Returns megabytes (1e6) per second; perftest counts in 2^20."""
    return perftest_columns(output)["BW average"] * 1.048576


def perftest_messages_s(output):
    """Returns millions of messages per second."""
    return perftest_columns(output)["MsgRate"]


def raw_figure(output, name, size):
    """Returns one figure of verbena-raw: the median if it gives quantiles."""
    try:
        figure = json.loads(output)[name][str(size)]
    except (ValueError, KeyError, TypeError):
        raise Unreadable(f"no {name}:{size} in: {output[-300:]}") from None
    return float(figure["median"] if isinstance(figure, dict) else figure)


def json_figure(output, key):
    """Returns one figure of verbena-connected, whose output may follow explanations."""
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                return float(json.loads(line)[key])
            except (ValueError, KeyError):
                break
    raise Unreadable(f"no {key} in: {output[-300:]}")
