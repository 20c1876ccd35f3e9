# SPDX-License-Identifier: BSD-2-Clause
"""The device's counters, and the rules of scripted faults."""

import collections
import dataclasses
import difflib


class Counters(dict):
    """{name: number}, with the names of sysfs and `verbena status --json`."""

    def __missing__(self, name):
        near = difflib.get_close_matches(name, self, 3)
        raise KeyError(f"there is no counter '{name}'" + (f"; did you mean {', '.join(near)}?" if near else
                       f"; there are {', '.join(sorted(self))}"))

    def since(self, before):
        """Returns how much each counter has grown since `before` was taken."""
        return Counters({name: number - before.get(name, 0) for name, number in self.items()})


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule of a scripted fault, with how many packets or calls matched it, and how many of them it changed."""

    rule: str
    matched: int
    fired: int


def sum_of(tables):
    total = collections.Counter()
    for table in tables:
        total.update(table)
    return dict(total)
