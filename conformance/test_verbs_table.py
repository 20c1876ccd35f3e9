#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares VERBS.md with the header and the library: each function of infiniband/verbs.h, and each that libibverbs.so.1
exports to programs, is in the table once, the tests that the table names exist, and a test calls each function that
the device has."""

import pathlib
import re
import subprocess
import tomllib
import unittest

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent
HEADER = pathlib.Path("/usr/include/infiniband/verbs.h")
LIBRARY = pathlib.Path("/usr/lib/x86_64-linux-gnu/libibverbs.so.1")


def declared():
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.S)
    # not a function: an enum before a parenthesis
    return set(re.findall(r"\b(_?ibv_[a-z0-9_]+)\s*\(", text)) - {"ibv_wc_opcode"}


def exported():
    """Returns the functions that programs may link with: no private versions, no ibv_cmd_*."""
    symbols = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r" (_?ibv_[a-z0-9_]+)@@?IBVERBS_1", symbols))


def rows():
    """Yields (functions, state, what shows them) of each row."""
    for line in (HERE / "VERBS.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            functions, state, shown = (cell.strip() for cell in line.strip("|").split("|"))
            yield re.findall(r"`(_?ibv_[a-z0-9_]+)`", functions), state, shown


def listed():
    return [name for functions, _, _ in rows() for name in functions]


def python_tests():
    text = (HERE / "pyverbs" / "pyverbs.toml").read_text(encoding="utf-8")
    return set(re.findall(r"test_\w+", text)) | set(re.findall(r"\b[A-Z]\w*(?=\.test_|\b)", text))


def cases():
    with (HERE / "manifests" / "verbs.toml").open("rb") as file:
        return {case["name"] for case in tomllib.load(file)["case"]}


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


def called():
    """Returns the functions that a program of tests/integration calls, through the real libibverbs."""
    texts = [without_comments(file.read_text(encoding="utf-8"))
             for file in sorted((REPOSITORY / "tests" / "integration").rglob("*")) if file.suffix in (".c", ".cpp", ".hpp")]
    return {name for text in texts for name in re.findall(r"\b(ibv_[a-z0-9_]+)\(", re.sub(r'"[^"\n]*"', '""', text))}


class Table(unittest.TestCase):
    def test_names_every_function(self):
        self.assertEqual(sorted(declared() - set(listed())), [])

    def test_names_what_the_library_exports(self):
        self.assertGreater(len(exported()), 60)
        self.assertEqual(sorted(exported() - set(listed())), [])

    def test_names_nothing_else(self):
        self.assertEqual(sorted(set(listed()) - declared() - exported()), [])

    def test_names_each_once(self):
        self.assertEqual(sorted(listed()), sorted(set(listed())))

    def test_what_shows_a_function_exists(self):
        known_cases, known_tests = cases(), python_tests()
        for functions, _, shown in rows():
            for place in re.findall(r"\btests/[\w/.]+", shown):
                self.assertTrue((REPOSITORY / place).exists(), f"{functions[0]}: {place}")
            for case in re.findall(r"`([\w.]+)(\.\*)?`", shown):
                name = case[0]
                self.assertTrue(any(c == name or c.startswith(name + ".") for c in known_cases), f"{functions[0]}: {name}")
            for part in shown.split(";"):
                if part.strip().startswith("pyverbs"):
                    for name in re.findall(r"\btest_\w+", part):
                        self.assertIn(name, known_tests, functions[0])

    def test_a_program_calls_each_function_that_works(self):
        """A function with an underscore before its name is called by the one without."""
        calls = called()
        self.assertGreater(len(calls), 100)
        works = {name.lstrip("_") for functions, state, _ in rows() for name in functions if re.match("yes|accepted", state)}
        self.assertEqual(sorted(works - calls), [])

    def test_what_is_not_libibverbs_own_is_shown(self):
        for functions, state, shown in rows():
            if shown == "\N{EM DASH}":
                self.assertTrue("libibverbs' own" in state or "no provider" in state, functions)


if __name__ == "__main__":
    unittest.main()
