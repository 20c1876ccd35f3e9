# SPDX-License-Identifier: BSD-2-Clause
"""Tests the runner of the python suite with a suite that passes, skips, fails, hangs and crashes."""

import pathlib
import shutil
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from harness import device as devices  # noqa: E402
from harness import manifest as manifests  # noqa: E402
from harness import suite as suites  # noqa: E402
from harness.pyverbs import SuiteRunner  # noqa: E402
from harness.suite import Outcome  # noqa: E402

PACKAGE = """
import importlib
__test_modules__ = [importlib.import_module("tests.test_a"), importlib.import_module("tests.test_b")]
"""
PARSER = """
class Parser:
    def parse_args(self):
        pass
parser = Parser()
"""
MODULE_A = """
import os, signal, unittest
class A(unittest.TestCase):
    def test_1_crash(self):
        os.kill(os.getpid(), signal.SIGSEGV)
    def test_2_pass(self):
        pass
    def test_3_skip(self):
        raise unittest.SkipTest("no such feature")
    def test_4_fail(self):
        self.assertEqual(1, 2)
    def test_5_error(self):
        raise OSError("broken")
    def test_6_subtest(self):
        with self.subTest("x"):
            self.fail("in a subtest")
        with self.subTest("y"):
            pass
"""
MODULE_B = """
import signal, unittest
class B(unittest.TestCase):
    def test_1_hang(self):
        signal.pause()
    def test_2_pass(self):
        print("to stdout")
"""

class Judging(unittest.TestCase):
    SUITE = suites.parse("""
modules = ["test_a"]
[[skip]]
why = "only there"
reason = "no Ethernet"
personas = ["ib"]
tests = { "test_a.A" = ["eth"] }
[[skip]]
why = "the machine decides"
reason = "no huge pages"
may = true
tests = { "test_a.A" = ["huge"] }
[pass]
"test_a.A" = ["eth", "plain"]
""")

    def judge(self, persona, test, *outcome):
        return self.SUITE.judge(persona, f"tests.test_a.A.{test}", Outcome(*outcome))

    def test_kept_promises(self):
        self.assertEqual("", self.judge("ib", "plain", "pass"))
        self.assertEqual("", self.judge("ib", "eth", "skip", "there is no Ethernet here"))
        self.assertEqual("", self.judge("roce", "eth", "pass"))
        self.assertEqual("", self.judge("ib", "huge", "pass"))
        self.assertEqual("", self.judge("ib", "huge", "skip", "no huge pages"))

    def test_an_unlisted_skip_fails(self):
        self.assertIn("skip", self.judge("ib", "plain", "skip", "no feature"))
        self.assertIn("skip", self.judge("roce", "eth", "skip", "there is no Ethernet here"))

    def test_a_skip_for_another_reason_fails(self):
        self.assertIn("another reason", self.judge("ib", "eth", "skip", "out of memory"))

    def test_a_pass_where_a_skip_is_listed_fails(self):
        self.assertIn("expects a skip", self.judge("ib", "eth", "pass"))

    def test_an_unknown_test_fails_even_when_it_passes(self):
        self.assertIn("does not name it", self.judge("ib", "new", "pass"))

    def test_everything_else_fails(self):
        for word in ("fail", "error", "hang", "crash"):
            self.assertIn(word, self.judge("ib", "plain", word, "why"))
            self.assertIn(word, self.judge("ib", "huge", word, "why"))

    def test_a_test_that_is_gone_is_seen(self):
        self.assertEqual(["tests.test_a.A.eth", "tests.test_a.A.plain"],
                         self.SUITE.absent("ib", ["tests.test_a.A.huge"]))

    def test_manifest_errors(self):
        for text in ("modules = []\nbogus = 1", "modules = []\n[[skip]]\nreason = 'x'",
                     "modules = []\n[pass]\n'a.B' = ['x', 'x']", "modules = []\n[pass]\n'a.B' = 'x'"):
            with self.subTest(text), self.assertRaises(manifests.ManifestError):
                suites.parse(text)

    def test_the_manifest_in_the_repository(self):
        suite = suites.load(HERE / "pyverbs" / "pyverbs.toml")
        for persona in manifests.PERSONAS:
            promised = sum(not expected.skip for expected in suite.expectations[persona].values())
            self.assertGreaterEqual(promised, 145)


class Running(unittest.TestCase):
    def test_every_outcome_is_told_apart(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="verbena-suite-test-"))
        self.addCleanup(shutil.rmtree, folder)
        tests = folder / "suite" / "tests"
        tests.mkdir(parents=True)
        for name, text in (("__init__", PACKAGE), ("args_parser", PARSER), ("test_a", MODULE_A), ("test_b", MODULE_B)):
            (tests / f"{name}.py").write_text(text)
        (folder / "counter").write_text("7")
        work = folder / "work"
        work.mkdir()
        device = devices.PresentDevice("dummy0,127.0.0.1", "root", counters=folder / "counter")
        runner = SuiteRunner(folder / "suite", device, work, limit=2.0)
        outcomes = {test.removeprefix("tests."): outcome.word for test, outcome, _ in runner.run(runner.list())}
        self.assertEqual({"test_a.A.test_1_crash": "crash", "test_a.A.test_2_pass": "pass", "test_a.A.test_3_skip": "skip",
                          "test_a.A.test_4_fail": "fail", "test_a.A.test_5_error": "error",
                          "test_a.A.test_6_subtest": "fail", "test_b.B.test_1_hang": "hang",
                          "test_b.B.test_2_pass": "pass"}, outcomes)


if __name__ == "__main__":
    unittest.main()
