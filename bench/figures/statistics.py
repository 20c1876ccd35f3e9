# SPDX-License-Identifier: BSD-2-Clause
"""Summarizes several rounds. Pure.

A round gives a figure of Verbena and, from the same seconds, one of the limit. The ratio is formed within the round, because
the machine's speed changes between rounds. The median of the ratios counts.
"""

import dataclasses
import statistics


@dataclasses.dataclass(frozen=True)
class Summary:
    """Medians over the rounds; limit and ratio are None for a row without a limit."""

    value: float
    limit: float | None
    ratio: float | None
    low: float  # least and greatest ratio, or value if there is no limit
    high: float


def summarize(samples):
    """Returns the summary of `samples`, which have one (value, limit or None) for each round."""
    if not samples:
        raise ValueError("no samples")
    values = [value for value, _ in samples]
    limits = [limit for _, limit in samples if limit is not None]
    if len(limits) != len(samples):
        return Summary(statistics.median(values), None, None, min(values), max(values))
    if min(limits) <= 0:
        raise ValueError(f"a limit is not above 0: {limits}")
    ratios = [value / limit for value, limit in samples]
    return Summary(statistics.median(values), statistics.median(limits), statistics.median(ratios), min(ratios),
                   max(ratios))


def judge(figure, lower_is_better, must, aim):
    """Returns which goal the figure reaches: 'aim', 'must' or 'no'; '' if there is no goal."""
    if must is None:
        return ""
    reaches = (lambda goal: figure <= goal) if lower_is_better else (lambda goal: figure >= goal)
    if aim is not None and reaches(aim):
        return "aim"
    return "must" if reaches(must) else "no"
