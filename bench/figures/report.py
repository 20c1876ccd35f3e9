# SPDX-License-Identifier: BSD-2-Clause
"""Makes the table and the JSON of a run. Pure."""

from . import statistics


def _short(number):
    if number is None:
        return "-"
    if number == 0:
        return "0"
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"


def entry(row, samples, failure):
    """Returns everything about one row, for JSON."""
    record = {"name": row.name, "unit": row.unit, "command": row.command, "link": row.link, "lower_is_better": row.lower_is_better,
              "limits": [row.against] if row.against else list(row.limits), "must": row.must, "aim": row.aim,
              "samples": [list(sample) for sample in samples], "failure": failure}
    if not samples:
        return record
    summary = statistics.summarize(samples)
    figure = summary.value if summary.ratio is None else summary.ratio
    record.update(value=summary.value, limit=summary.limit, ratio=summary.ratio, low=summary.low, high=summary.high,
                  reaches=statistics.judge(figure, row.lower_is_better, row.must, row.aim))
    return record


def table(entries):
    """Returns the table in Markdown, with each ratio's range behind it."""
    lines = ["| row | Verbena | limit | ratio (range) | must | aim | reaches |", "|---|---|---|---|---|---|---|"]
    for e in entries:
        if "value" not in e:
            lines.append(f"| {e['name']} | failed: {e['failure'].splitlines()[0][:80]} | | | | | |")
            continue
        if e["ratio"] is None:
            ratio, limit = "-", "-"
            span = f" ({_short(e['low'])}..{_short(e['high'])})" if len(e["samples"]) > 1 else ""
        else:
            ratio, limit = f"{_short(e['ratio'])} ({_short(e['low'])}..{_short(e['high'])})", _short(e["limit"])
            span = ""
        sign = "≤" if e["lower_is_better"] else "≥"
        goals = [f"{sign} {_short(goal)}" if goal is not None else "" for goal in (e["must"], e["aim"])]
        lines.append(f"| {e['name']} | {_short(e['value'])} {e['unit']}{span} | {limit} | {ratio} | {goals[0]} | {goals[1]} | "
                     f"{e['reaches']} |")
    return "\n".join(lines)
