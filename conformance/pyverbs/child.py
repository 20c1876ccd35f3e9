# SPDX-License-Identifier: BSD-2-Clause
"""Runs named tests of a unittest suite inside the watched process and reports each as it starts and ends.

    child.py SUITE-PARENT REPORT TESTS-FILE -- ARGUMENTS-OF-THE-SUITE

SUITE-PARENT holds the package `tests`. TESTS-FILE names one test per line; if it is empty, no test runs and the report
lists all tests. REPORT gets one JSON object per line, written at once, so that a crash loses nothing.
"""

import json
import os
import sys
import unittest


def load(parent, arguments):
    """Returns all tests of the package, by name."""
    sys.path[:0] = [parent, os.path.join(parent, "tests")]
    sys.argv[1:] = arguments
    from args_parser import parser
    parser.parse_args()
    import tests

    found = {}

    def collect(group):
        for item in group:
            if isinstance(item, unittest.TestSuite):
                collect(item)
            else:
                found[item.id()] = item

    for module in tests.__test_modules__:
        collect(unittest.defaultTestLoader.loadTestsFromModule(module))
    return found


class Reporter(unittest.TestResult):
    """Writes down what happens to each test."""

    def __init__(self, report):
        super().__init__()
        self._report = report

    def write(self, **record):
        self._report.write(json.dumps(record) + "\n")

    def startTest(self, test):
        super().startTest(test)
        self._word, self._reason = "pass", ""
        self.write(event="start", test=test.id())

    def stopTest(self, test):
        super().stopTest(test)
        self.write(event="end", test=test.id(), word=self._word, reason=self._reason)

    def _note(self, word, reason):
        if self._word in ("pass", "skip"):  # a later result does not replace a failure
            self._word, self._reason = word, " ".join(str(reason).split())[:400]

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._note("skip", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._note("fail", err[1])

    def addError(self, test, err):
        super().addError(test, err)
        self._note("error", f"{err[0].__name__}: {err[1]}")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._note("fail", err[1])


def main():
    parent, report_path, wanted_path = sys.argv[1:4]
    found = load(parent, sys.argv[sys.argv.index("--") + 1:])
    with open(wanted_path, encoding="utf-8") as file:
        wanted = file.read().split()
    with open(report_path, "a", buffering=1, encoding="utf-8") as report:
        result = Reporter(report)
        if not wanted:
            for name in found:
                result.write(event="found", test=name)
        for name in wanted:
            unittest.TestSuite([found[name]]).run(result)


if __name__ == "__main__":
    main()
