#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks rules about text, over all files of the project.

    text_test.py [Format|Licence|Documents|Atomics|Compilers|Rooms]
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LICENCE = "SPDX-License-Identifier: BSD-2-Clause"
CODE = {".cpp", ".hpp", ".c", ".h"}
WITH_LICENCE = CODE | {".py", ".cmake", ".toml", ".sh", ".map", ".supp", ".1"}
# The version of clang-format that decides; other versions format differently.
FORMATTER = 14
WIDTH = 120

# Only these files order memory by hand. Others use what base/lock.hpp offers (Lock, Published, Counter ...).
ATOMICS = set(pathlib.Path(__file__).with_name("atomics.txt").read_text().split())


def files():
    """Yields all files except those of builds and git."""
    for folder, below, names in os.walk(ROOT):
        below[:] = [b for b in below if b not in ("build", ".git", "__pycache__")]
        for name in names:
            yield pathlib.Path(folder, name)


def of_kind(kinds):
    return sorted(f for f in files() if f.suffix in kinds)


def names(paths):
    return "\n".join(str(p.relative_to(ROOT)) for p in paths)


class Format(unittest.TestCase):
    def test_clang_format_changes_nothing(self):
        tool = shutil.which(f"clang-format-{FORMATTER}") or shutil.which("clang-format")
        self.assertIsNotNone(tool, "clang-format is missing: scripts/deps test")
        version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
        if not re.search(rf"version {FORMATTER}\.", version):
            self.skipTest(f"the files are formatted by clang-format {FORMATTER}, this is {version.strip()}")

        def differ(paths):
            """Returns the files whose format is wrong. It takes many files at once, because starting clang-format takes
            longer than formatting a file."""
            said = subprocess.run([tool, "--dry-run", "-Werror", *paths], capture_output=True, text=True, check=False)
            wrong = [path for path in paths if re.search(rf"^{re.escape(str(path))}:\d+:\d+: error: ", said.stderr, re.MULTILINE)]
            self.assertEqual(said.returncode != 0, bool(wrong), said.stderr)
            return wrong

        code = of_kind(CODE)
        self.assertGreater(len(code), 500)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            wrong = [path for some in pool.map(differ, (code[at:at + 50] for at in range(0, len(code), 50))) for path in some]
        self.assertFalse(wrong, f"not as clang-format -i writes them:\n{names(wrong)}")


class Licence(unittest.TestCase):
    def test_each_file_names_it(self):
        def lacks(path):
            with path.open(errors="replace") as lines:
                return not any(LICENCE in line for _, line in zip(range(3), lines))

        def is_script(path):
            with path.open("rb") as f:
                return f.read(2) == b"#!"

        candidates = [f for f in files() if f.suffix in WITH_LICENCE or f.name == "CMakeLists.txt" or is_script(f)]
        self.assertGreater(len(candidates), 900)
        wrong = [f for f in candidates if lacks(f)]
        self.assertFalse(wrong, f"without a line '{LICENCE}' among the first three:\n{names(wrong)}")


class Documents(unittest.TestCase):
    def test_lines_are_not_too_long(self):
        documents = of_kind({".md"})
        self.assertGreater(len(documents), 10)
        wrong = [f"{d.relative_to(ROOT)}:{number}" for d in documents
                 for number, line in enumerate(d.read_text().splitlines(), 1) if len(line) > WIDTH]
        self.assertFalse(wrong, f"lines over {WIDTH} columns:\n" + "\n".join(wrong))


class Atomics(unittest.TestCase):
    def test_memory_is_ordered_by_hand_in_few_files(self):
        raw = re.compile(r"std::atomic|\b__atomic_|\bmemory_order")
        found = {str(f.relative_to(ROOT)) for room in ("kernel-free-transport", "provider", "emulator")
                 for f in (ROOT / room).rglob("*") if f.suffix in CODE and raw.search(f.read_text())}
        self.assertFalse(found - ATOMICS, "raw atomics in files that are not in tests/text/atomics.txt: use base/lock.hpp")
        self.assertFalse(ATOMICS - found, "in tests/text/atomics.txt, but without raw atomics")


class Compilers(unittest.TestCase):
    def test_nothing_is_used_that_clang_14_cannot_compile(self):
        """Views of <ranges> do not compile with clang 14 and the library of GCC 12; the algorithms of std::ranges do."""
        views = re.compile(r"std::views\b|std::ranges::views\b|#include <ranges>")
        wrong = [f for f in of_kind(CODE) if views.search(f.read_text(errors="replace"))]
        self.assertFalse(wrong, f"use range views:\n{names(wrong)}")


class Rooms(unittest.TestCase):
    def test_the_engine_knows_neither_the_verbs_nor_the_daemon(self):
        """CMake's targets forbid includes against the arrows. The includes here would follow the arrows."""
        foreign = re.compile(r'#include [<"]((?:infiniband|rdma|verbena/(?:abi|control|objects))/[^>"]+)')
        allowed = {"verbena/control/unique_fd.hpp", "verbena/objects/post_state.hpp"}
        code = [f for room in ("events", "progress", "engine")
                for f in (ROOT / "provider" / room).rglob("*") if f.suffix in CODE]
        self.assertGreater(len(code), 20)
        wrong = [f for f in code if set(foreign.findall(f.read_text())) - allowed]
        self.assertFalse(wrong, f"include what an engine may not know:\n{names(wrong)}")


if __name__ == "__main__":
    unittest.main()
