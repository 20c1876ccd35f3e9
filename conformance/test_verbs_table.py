#!/usr/bin/env python3
"""Holds VERBS.md against the header: each function of infiniband/verbs.h stands in the table once."""

import pathlib
import re
import unittest

HERE = pathlib.Path(__file__).resolve().parent
HEADER = pathlib.Path("/usr/include/infiniband/verbs.h")


def declared():
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.S)
    return set(re.findall(r"\b(_?ibv_[a-z0-9_]+)\s*\(", text)) - {"ibv_wc_opcode"}  # an enum before a parenthesis


def listed():
    rows = [line.split("|")[1] for line in (HERE / "VERBS.md").read_text(encoding="utf-8").splitlines()
            if line.startswith("| `")]
    return re.findall(r"`(_?ibv_[a-z0-9_]+)`", "\n".join(rows))


class Table(unittest.TestCase):
    def test_names_every_function(self):
        self.assertEqual(sorted(declared() - set(listed())), [])

    def test_names_nothing_else(self):
        self.assertEqual(sorted(set(listed()) - declared()), [])


if __name__ == "__main__":
    unittest.main()
