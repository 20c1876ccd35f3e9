# SPDX-License-Identifier: BSD-2-Clause
"""Reads declared.toml, and checks that its tests exist and mention what they are said to drive."""

import json
import pathlib
import re
import subprocess
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).with_name("declared.toml")
# Tests of other groups see a class or a function, not what a user sees.
FROM_OUTSIDE = ("integration.", "conformance.", "preload.")
GAP = "gap: "  # in place of a test that has yet to be written


def load():
    """Returns {kind: {name: [(ctest, case), ...]}}. A gap has no tests."""
    with TABLE.open("rb") as file:
        table = tomllib.load(file)
    return {kind: {name: tests_of(value) for name, value in rows.items()} for kind, rows in table.items()}


def tests_of(value):
    if isinstance(value, str) and value.startswith(GAP):
        return []
    return [tuple(text.split(" ", 1)) for text in ([value] if isinstance(value, str) else value)]


def registered(ctest, build):
    """Returns the names of all tests of a build tree, without those of long campaigns."""
    listed = subprocess.run([ctest, "--test-dir", str(build), "--show-only=json-v1"], capture_output=True, text=True, check=True)
    return {test["name"] for test in json.loads(listed.stdout)["tests"]}


def words_of(name):
    """Returns the words of which a test must contain one: the option, the field, the file. For a drop
    counter, one is the shorter name that status has."""
    word = [part for part in re.split(r"[ ./\[\]*]+", name) if part][-1]
    return {word, word.removeprefix("rx_drop_")}


def speaks_of(text, name):
    return any(re.search(rf"(?:(?<![\w-])|\\n){re.escape(word)}(?![\w-])", text) for word in words_of(name))


def what_is_wrong(name, tests, known, sources):
    """Yields one line for each test of a row that is not valid."""
    for ctest, *case in tests:
        if not ctest.startswith(FROM_OUTSIDE):
            yield f"{name}: {ctest} is no test that drives the programs from outside"
        elif ctest not in known:
            yield f"{name}: there is no test {ctest}"
        elif not case:
            yield f"{name}: name the case, as \"{ctest} test_what_it_shows\""
        elif not (texts := sources.texts_of(case[0])):
            yield f"{name}: nothing below tests/integration and conformance defines {case[0]}"
        elif not any(speaks_of(text, name) for text in texts):
            yield f"{name}: neither {case[0]} nor what it uses of its file says anything of it"
