#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What the pytest plugin keeps of a test that has failed.

    pytest_failures_test.py PREFIX
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import unittest

import pytest_test
from kit_case import LIMIT, ROOT
from pytest_test import Case

sys.path.insert(1, str(ROOT / "tests/integration/emulator"))
import json_schema  # noqa: E402

ONE_FAILS = '''
    def test_it(verbena):
        verbena.fault(loss="1%", data=True, seed=11)
        verbena.run("ibv_rc_pingpong localhost", fail=["ibv_reg_mr=ENOMEM"])
    '''


class Failures(Case):
    def test_what_is_kept(self):
        self.write(ONE_FAILS)
        done = self.pytest("--verbena-artifacts", "kept")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        kept = self.folder / "kept/test_sample.py-test_it"
        self.assertIn(f"artifacts: {kept}\n", done.stdout)
        self.assertIn("fault: --loss 1% --data --seed 11\n", done.stdout)
        explanation = re.search(r"^verbena: ibv_rc_pingpong\[\d+\]: ibv_reg_mr: .* ENOMEM.*\n", done.stdout, re.MULTILINE)[0]
        self.assertEqual({file.name for file in kept.iterdir()},
                         {"capture.pcapng", "events.jsonl", "explain.log", "programs.log", "status.json", "test.json"})
        self.assertEqual((kept / "explain.log").read_text(), explanation)
        self.assertIn("ibv_rc_pingpong localhost: exit code 1\n", (kept / "programs.log").read_text())
        self.assertEqual(json.loads((kept / "status.json").read_text())["devices"][0]["faults"][0]["seed"], 11)
        events = [json.loads(line) for line in (kept / "events.jsonl").read_text().splitlines()]
        self.assertEqual([event["kind"] for event in events], ["emulator_up", "fault_set", "opened", "closed"])
        self.assertEqual((kept / "capture.pcapng").read_bytes()[:4], b"\x0a\x0d\x0d\x0a")
        self.assertEqual(len({file.stat().st_mode for file in kept.iterdir()}), 1)
        run = json.loads((kept / "test.json").read_text())
        self.assertEqual((run["test"], run["file"], run["line"], run["faults"]),
                         ("test_sample.py::test_it", "test_sample.py", 2, ["--loss 1% --data --seed 11"]))
        self.assertEqual(run["programs"], [{"command": "ibv_rc_pingpong localhost", "returncode": 1}])
        schema = json.loads(pathlib.Path(pytest_test.PREFIX, "share/verbena/test.schema.json").read_text())
        self.assertEqual(json_schema.wrong(run, schema), [])

    def test_of_programs_that_hang(self):
        """What they waited for is explained. That the plugin has ended them is not."""
        self.write("""
            def test_a_pair(verbena):
                verbena.fault(inject="drop opcode=WRITE nth=1")
                verbena.pair("ibv_rc_pingpong -p 18517 & wait; exit 143", "ibv_rc_pingpong -p 0 & wait; exit 3", timeout=3)
            """)
        done = self.pytest()
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        kept = self.folder / "verbena-artifacts/test_sample.py-test_a_pair"
        lines = (kept / "explain.log").read_text().splitlines()
        self.assertTrue(any(re.match(r"verbena: ibv_rc_pingpong\[\d+\]: RC QP 0x\w+ is in INIT", line) for line in lines), lines)
        self.assertEqual([line for line in lines if not re.match(r"verbena: .*\[\d+\]: ", line)], [])
        self.assertIn("ended with exit code 143", (kept / "programs.log").read_text())
        self.assertEqual(json.loads((kept / "test.json").read_text())["never_fired"], ["drop opcode=WRITE nth=1"])

    def test_of_fixtures_too(self):
        """Whether they fail at their beginning or at their end, and whether that is before our end or after it."""
        self.write("""
            import pytest

            @pytest.fixture
            def begins_badly(verbena):
                verbena.run("echo begun")
                assert False, "at the beginning"

            @pytest.fixture
            def ends_badly(verbena):
                yield
                verbena.run("exit 3")

            @pytest.fixture
            def ends_badly_after_it():
                yield
                assert False, "at the end"

            def test_begins(begins_badly): pass
            def test_ends(ends_badly): pass
            def test_ends_after_it(ends_badly_after_it, verbena):
                verbena.start("echo started; exec sleep 1000").wait_for_output("started")
            def test_fails_twice(ends_badly_after_it, verbena):
                verbena.fault(loss="1%", data=True, seed=7)
                assert False, "at first"
            """)
        done = self.pytest()
        self.assertRegex(done.stdout, r"\b1 failed, 2 passed, 4 errors\b", done.stdout + done.stderr)
        names = {"capture.pcapng", "events.jsonl", "explain.log", "programs.log", "status.json", "test.json"}
        for test, program in (("begins", "echo begun: exit code 0"), ("ends", "exit 3: exit code 3"),
                              ("ends_after_it", "echo started; exec sleep 1000: exit code -15"), ("fails_twice", "")):
            kept = self.folder / f"verbena-artifacts/test_sample.py-test_{test}"
            self.assertIn(f"artifacts: {kept}\n", done.stdout)
            self.assertEqual({file.name for file in kept.iterdir()}, names, test)
            self.assertIn(program, (kept / "programs.log").read_text())
            self.assertEqual(json.loads((kept / "test.json").read_text())["test"], f"test_sample.py::test_{test}")
        self.assertIn(f"artifacts: {kept}, of the failure before\n", done.stdout)
        self.assertEqual(json.loads((kept / "status.json").read_text())["devices"][0]["faults"][0]["seed"], 7)

    def test_its_command_fails_again(self):
        """In the folder where pytest was started: below the root, by a program that is not in PATH, in the own process."""
        below = self.folder / "tests/inner"
        below.mkdir(parents=True)
        self.write("[pytest]\n", "pytest.ini")
        (self.folder / "it's.ini").write_text("[pytest]\npython_functions = check_*\n")
        (below / "test_it.py").write_text(textwrap.dedent("""
            import os
            import pytest

            @pytest.mark.parametrize("word", ["a b", "::"])
            def test_it(verbena, word):
                verbena.run("true")
                assert "libverbena-preload" in open("/proc/self/maps").read(), "not in this process"
                assert word == "a b", "as wanted"

            def check_it(verbena):
                assert False, "as wanted"
            """))
        script = self.write("#!/bin/sh\nexec python3 -m pytest -p no:cacheprovider \"$@\"\n", "pytest")
        script.chmod(0o755)
        program = os.path.relpath(f"{pytest_test.PREFIX}/bin/verbena", below)
        path = f"{self.folder}:/usr/bin:/bin"
        for words, test in ((["--verbena-in-process"], "test_it[::]"), (["-c", "../../it's.ini"], "check_it")):
            done = subprocess.run([script, "--verbena", program, *words], cwd=below, env={**self.environment, "PATH": path},
                                  text=True, capture_output=True, timeout=LIMIT, check=False)
            self.assertIn("as wanted", done.stdout, done.stderr)
            self.assertNotIn("AssertionError: not in", done.stdout)
            [file] = below.glob("verbena-artifacts/*/test.json")
            run = json.loads(file.read_text())
            self.assertTrue(run["test"].endswith("::" + test), run)
            shutil.rmtree(below / "verbena-artifacts")
            again = subprocess.run(["sh", "-c", run["again"]], cwd=below, env={**self.environment, "PATH": path},
                                   text=True, capture_output=True, timeout=LIMIT, check=False)
            self.assertRegex(again.stdout, r"\b1 failed in\b", again.stderr)
            self.assertIn("as wanted", again.stdout)
            shutil.rmtree(below / "verbena-artifacts")

    def test_what_cannot_be_encoded(self):
        self.write("""
            import os

            def test_it(verbena):
                verbena.run(["sh", "-c", "printf '\\\\344'; exit 3", "sh", os.fsdecode(b"\\xff")])

            def test_another(verbena):
                pass
            """)
        done = self.pytest()
        self.assertRegex(done.stdout, r"\b1 failed, 1 passed\b", done.stdout + done.stderr)
        kept = self.folder / "verbena-artifacts/test_sample.py-test_it"
        self.assertRegex((kept / "programs.log").read_text(encoding="utf-8"), r"sh '\\udcff': exit code 3\nstdout:\n\ufffd\n")
        self.assertTrue(json.loads((kept / "test.json").read_text())["programs"][0]["command"].endswith("sh '\udcff'"))

    def test_no_two_share_a_folder(self):
        text = textwrap.dedent("""
            import pytest

            @pytest.mark.parametrize("word", ["a/x", "b/x", "b x", "l" * 200 + "1", "l" * 200 + "2"])
            def test_it(verbena, word):
                assert False
            """)
        for folder in ("one", "two"):
            (self.folder / folder).mkdir()
            self.write(text, folder + "/test_it.py")
        done = self.pytest("--import-mode=importlib")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        kept = [json.loads(run.read_text())["test"] for run in self.folder.glob("verbena-artifacts/*/test.json")]
        self.assertEqual(len(set(kept)), 10, kept)
        self.assertIn("two/test_it.py::test_it[b/x]", kept)

    def test_where_nothing_can_be_kept(self):
        """If nothing can be kept, the other tests go on."""
        self.write(textwrap.dedent(ONE_FAILS) + "def test_another(verbena): pass\n")
        self.write("", "file")
        done = self.pytest("--verbena-artifacts", "file/folder")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"\b1 failed, 1 passed\b")
        self.assertIn(f"artifacts cannot be kept in {self.folder}/file/folder/test_sample.py-test_it: Not a directory\n",
                      done.stdout)

    def test_settings(self):
        self.write(ONE_FAILS)
        self.write("[pytest]\nverbena_artifacts = elsewhere\nverbena_capture = false\n", "pytest.ini")
        done = self.pytest()
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        kept = {file.name for file in (self.folder / "elsewhere/test_sample.py-test_it").iterdir()}
        self.assertEqual(kept, {"events.jsonl", "explain.log", "programs.log", "status.json", "test.json"})


if __name__ == "__main__":
    pytest_test.PREFIX = sys.argv[1]
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
