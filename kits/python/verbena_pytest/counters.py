# SPDX-License-Identifier: BSD-2-Clause
"""Numbers that the device counts."""

import collections
import dataclasses
import difflib


class Counters(dict):
    """{name: number}. Names are those of sysfs and of `verbena status --json`."""

    def __missing__(self, name):
        near = difflib.get_close_matches(name, self, 3)
        raise KeyError(f"there is no counter '{name}'" + (f"; did you mean {', '.join(near)}?" if near else
                       f"; there are {', '.join(sorted(self))}"))

    def since(self, before):
        """What has been added since `before` was taken."""
        return Counters({name: number - before.get(name, 0) for name, number in self.items()})


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule of a scripted fault, how many packets or calls it was about, and how many it changed."""

    rule: str
    matched: int
    fired: int


def sum_of(tables):
    total = collections.Counter()
    for table in tables:
        total.update(table)
    return dict(total)
