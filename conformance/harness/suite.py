# SPDX-License-Identifier: BSD-2-Clause
"""What the result of each test of a python suite must be, and whether it was.

Owner: conformance/pyverbs/run. Promise: every test of the suite is judged. A test that the manifest does not name, an
unexpected skip, and a pass instead of an expected skip are failures, so neither a lost feature nor an outdated list
looks green.
"""

import dataclasses
import pathlib
import re
import tomllib

from .manifest import PERSONAS, ManifestError


@dataclasses.dataclass(frozen=True)
class Expectation:
    """`skip` is a pattern for the reason of the skip, or empty if the test must pass. With `may`, a pass is as good."""

    skip: str = ""
    may: bool = False


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What the suite reported: pass, skip, fail, error, hang or crash, with its text."""

    word: str
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Suite:
    """The modules to run, and for each persona the expected result of each test."""

    modules: tuple
    packets: int
    expectations: dict  # persona -> {test: Expectation}

    def judge(self, persona, test, outcome):
        """Returns why the result is wrong, or an empty string if it is right."""
        expected = self.expectations[persona].get(test)
        if expected is None:
            return f"{outcome.word}, but the manifest does not name it"
        if outcome.word == "pass":
            return "" if not expected.skip or expected.may else "passes, but the manifest expects a skip"
        if outcome.word == "skip" and expected.skip:
            return "" if re.search(expected.skip, outcome.reason) else f"skipped for another reason: {outcome.reason}"
        return f"{outcome.word}: {outcome.reason}"

    def absent(self, persona, found):
        """Returns the tests of the manifest that the suite does not have."""
        return sorted(set(self.expectations[persona]) - set(found))


def _names(table, where):
    """Returns full names of 'module.Class' = ['test', ...]."""
    if not all(isinstance(tests, list) for tests in table.values()):
        raise ManifestError(f"{where}: wants 'module.Class' = ['test', ...]")
    return [f"tests.{place}.{test}" for place, tests in table.items() for test in tests]


def _add(expectations, personas, names, expectation):
    for persona in personas:
        for name in names:
            if name in expectations[persona]:
                raise ManifestError(f"{name} is listed twice for {persona}")
            expectations[persona][name] = expectation


def parse(text):
    """Returns the suite of a manifest's text."""
    document = tomllib.loads(text)
    unknown = set(document) - {"title", "modules", "packets", "pass", "skip"}
    if unknown:
        raise ManifestError(f"unknown key {', '.join(sorted(unknown))}")
    expectations = {persona: {} for persona in PERSONAS}
    for group in document.get("skip", []):
        unknown = set(group) - {"why", "reason", "may", "personas", "tests"}
        if unknown or not group.get("why") or not group.get("reason"):
            raise ManifestError(f"a skip needs why, reason and tests, and knows no {', '.join(sorted(unknown)) or 'more'}")
        _add(expectations, group.get("personas", PERSONAS), _names(group.get("tests", {}), group["why"]),
             Expectation(group["reason"], group.get("may", False)))
    passing = _names(document.get("pass", {}), "pass")
    for persona in PERSONAS:
        # A test may pass on one persona and be skipped on the other: then both `pass` and the persona's `skip` list the
        # test.
        _add(expectations, [persona], [name for name in passing if name not in expectations[persona]], Expectation())
    if len(set(passing)) != len(passing):
        raise ManifestError("a test is listed twice under pass")
    return Suite(tuple(document["modules"]), document.get("packets", 1), expectations)


def load(path):
    """Returns the suite of a manifest file."""
    try:
        return parse(pathlib.Path(path).read_text(encoding="utf-8"))
    except (ManifestError, tomllib.TOMLDecodeError, KeyError) as error:
        raise ManifestError(f"{path}: {error}") from error
