# SPDX-License-Identifier: BSD-2-Clause
"""The rows of the table: what is run, what it is compared with, and which ratios are wanted.

A row is data, which figures/measure.py runs. Limits are figures of verbena-raw with an optional factor, as in
"udp_polled_rtt_us:8 / 2". The greatest of several limits counts.
"""

import dataclasses
import re

from . import parse


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    unit: str
    command: str  # the same for both sides; for the client the server's address is appended
    figure: object  # output -> number
    link: str = "udp"
    limits: tuple = ()
    against: str = ""  # instead of limits: the name of another row, measured in the same round
    lower_is_better: bool = True
    must: float | None = None
    aim: float | None = None
    alone: bool = False  # one process without a server
    once: bool = False  # the same in each round, so that only the first one measures it
    # 1: both sides share a processor. 2: each side is bound to one, and so is the limit; waking a
    # sleeper on another processor takes fifteen times as long. 0: the scheduler chooses, unless
    # everything is bound (--pin).
    processors: int = 0


def limit_of(text, raw):
    """Returns the value of "NAME:SIZE [*|/ FACTOR]", which `raw(name, size)` measures."""
    found = re.fullmatch(r"(\w+):(\d+)(?: ([*/]) ([\d.]+))?", text)
    if not found:
        raise ValueError(f"a limit is 'NAME:SIZE' with an optional '* FACTOR', not '{text}'")
    value = raw(found[1], int(found[2]))
    factor = float(found[4]) if found[4] else 1.0
    return value / factor if found[3] == "/" else value * factor


def _lat(program, size, count=20000):
    return f"{program} -F -s {size} -n {count}"


def _bw(size, more="", seconds=2):
    return f"ib_write_bw -F -s {size} -D {seconds} {more}".rstrip()


_POLLED = "udp_polled_rtt_us"
_BLOCKING = "udp_blocking_rtt_us"
_UDP_STREAM = ("udp_stream_mb_s:4096",)


def _shared(size):
    return (f"process_vm_writev_mb_s:{size}", "ring_stream_mb_s:4096", "ring_stream_mb_s:32768")


def _latencies():
    us = parse.perftest_typical_us
    pingpong = "ibv_rc_pingpong -s 4096 -m 4096 -n"
    yield Row("ibv_rc_pingpong 4096, auto", "us", f"{pingpong} 20000", parse.pingpong_us, "auto", (f"{_POLLED}:4096",), must=0.5,
              aim=0.3)
    yield Row("ibv_rc_pingpong 4096, UDP", "us", f"{pingpong} 20000", parse.pingpong_us, "udp", (f"{_POLLED}:4096",), must=1.5,
              aim=1.2)
    for where, processors, link, must, aim in (("auto", 2, "auto", 1.2, 1.05), ("UDP", 2, "udp", 1.3, 1.05),
                                               ("one processor, auto", 1, "auto", 1.2, 1.05),
                                               ("one processor, UDP", 1, "udp", None, None)):
        yield Row(f"ibv_rc_pingpong -e 4096, {where}", "us", f"{pingpong} 20000 -e", parse.pingpong_us, link,
                  (f"{_BLOCKING}:4096",), must=must, aim=aim, processors=processors)
    for program in ("ib_write_lat", "ib_send_lat"):
        yield Row(f"{program} 8, auto", "us", _lat(program, 8), us, "auto", ("ring_hop_us:8",), must=5, aim=3)
        yield Row(f"{program} 8, UDP", "us", _lat(program, 8), us, "udp", (f"{_POLLED}:8 / 2",), must=1.3, aim=1.15)
    for link, word in (("auto", "auto"), ("udp", "UDP")):
        yield Row(f"ib_send_lat 8, one processor, {word}", "us", _lat("ib_send_lat", 8), us, link, processors=1)
    for program in ("ib_read_lat", "ib_atomic_lat"):
        sized = _lat(program, 8) if program == "ib_read_lat" else f"{program} -F -n 20000"
        yield Row(f"{program} 8, auto", "us", sized, us, "auto", ("ring_hop_us:8 * 2",), must=5, aim=3)
        # perftest's server meanwhile sleeps on its TCP connection.
        yield Row(f"{program} 8, UDP, server asleep", "us", sized, us, "udp", (f"{_BLOCKING}:8",), must=2,
                  processors=2)


def _bandwidths():
    for name, size in (("64 KiB", 65536), ("1 MiB", 1048576)):
        yield Row(f"ib_write_bw {name}, auto", "MB/s", _bw(size), parse.perftest_mb_s, "auto", _shared(size),
                  lower_is_better=False, must=0.6, aim=0.85)
        yield Row(f"ib_write_bw {name}, UDP", "MB/s", _bw(size), parse.perftest_mb_s, "udp", _UDP_STREAM,
                  lower_is_better=False, must=0.75, aim=0.9)
    for link, word, must, aim in (("auto", "auto", 4, 8), ("udp", "UDP", 1.5, 3)):
        yield Row(f"ib_write_bw 8, {word}", "M/s", _bw(8), parse.perftest_messages_s, link, lower_is_better=False, must=must,
                  aim=aim)
    for link, word in (("auto", "auto"), ("udp", "UDP")):
        yield Row(f"ib_write_bw 8 KiB, 1 QP, {word}", "MB/s", _bw(8192, "-q 1"), parse.perftest_mb_s, link, lower_is_better=False)
        for count in (64, 1024):
            yield Row(f"ib_write_bw 8 KiB, {count} QPs, {word}", "MB/s", _bw(8192, f"-q {count}"), parse.perftest_mb_s, link,
                      against=f"ib_write_bw 8 KiB, 1 QP, {word}", lower_is_better=False, must=0.8, aim=1.0)


def _rest():
    yield Row("10,000 connected QPs", "MiB", "verbena-connected memory 10000",
              lambda output: parse.json_figure(output, "bytes") / 2**20, must=40, aim=20, alone=True, once=True)
    yield Row("an opened device, in its process", "MiB", "verbena-connected memory 2",
              lambda output: parse.json_figure(output, "device_bytes") / 2**20, alone=True, once=True)
    yield Row("silent pair, 10 s", "wake-ups", "verbena-connected idle 10",
              lambda output: parse.json_figure(output, "wake_ups"), must=0, aim=0, alone=True, once=True)


ROWS = (*_latencies(), *_bandwidths(), *_rest())


def chosen(pattern):
    """Returns the rows whose names match, and the rows that they are compared with."""
    wanted = [row for row in ROWS if re.search(pattern, row.name, re.IGNORECASE)]
    needed = {row.against for row in wanted}
    return [row for row in ROWS if row in wanted or row.name in needed]
