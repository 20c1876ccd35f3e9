#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A test drives everything that the programs declare: declared.toml has a row for each option, variable, setting,
field, file and counter of the programs as they are built, and each row names a test that exists.

    declared_test.py BUILD CTEST [unittest arguments]
"""

import pathlib
import random
import sys
import unittest

import extract
import rows
import sources

sys.path[1:1] = [str(rows.ROOT / "tests" / "integration" / room) for room in ("provider", "emulator")]
import device as devices  # noqa: E402
import json_schema  # noqa: E402

BUILD = CTEST = None


class Declared(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.table = rows.load()
        cls.bin, lib = BUILD / "bin", BUILD / "lib"
        cls.verbena = str(cls.bin / "verbena")
        cls.binaries = [cls.bin / "verbena", cls.bin / "verbenad", *lib.glob("libverbena*.so")]
        cls.device = cls.enterClassContext(devices.Emulator(BUILD))
        address = f"127.{random.randrange(64, 250)}.{random.randrange(1, 250)}.1"
        roce = cls.enterClassContext(devices.Emulator(BUILD, "--roce", address, "--device", "roce_0"))
        cls.shadows = {name: pathlib.Path(device.environment["VERBENA_RUNTIME_DIR"], "shadow")
                       for name, device in (("verbena0", cls.device), ("roce_0", roce))}
        cls.device.control("fault", "--loss", "0.0001%", "--inject", "drop nth=1000000000")
        traffic = cls.enterClassContext(extract.Traffic(cls.device, str(cls.bin / "steps")))
        cls.status = traffic.status()

    def compare(self, kind, declared):
        table = set(self.table.get(kind, {}))
        words = [f"[{kind}] {name}: declared, and not in {rows.TABLE.relative_to(rows.ROOT)}: add a row with the test that drives "
                 f"it from outside, or take it away" for name in sorted(declared - table)]
        words += [f"[{kind}] {name}: in the table, and declared no more" for name in sorted(table - declared)]
        if words:
            self.fail("\n" + "\n".join(words))

    def test_commands(self):
        commands = extract.commands(self.verbena)
        missing = extract.commands_by_help(self.verbena) - commands
        self.assertLessEqual({name for name in missing if not name.startswith("env --shell ")}, set(),
                             "in --help, but not in the completion script")
        self.compare("commands", commands | missing)

    def test_daemon_options(self):
        self.compare("daemon", extract.daemon_options(str(self.bin / "verbenad")))

    def test_variables(self):
        self.compare("variables", extract.variables(*self.binaries))

    def test_settings(self):
        self.compare("settings", extract.settings(self.verbena, self.device.folder))

    def test_rules(self):
        self.compare("rules", extract.rules(self.verbena))

    def test_status(self):
        self.compare("status", extract.status_fields(self.status))

    def test_the_schema_of_status(self):
        self.assertEqual(json_schema.wrong(self.status, json_schema.load("status")), [])

    def test_the_schema_of_events(self):
        """Compares the table with the schema. Each test of an event checks that the event follows the schema."""
        kinds = json_schema.load("events")["oneOf"]
        common = set.intersection(*(set(kind["properties"]) for kind in kinds))
        self.assertEqual(common, {"seq", "time", "kind", "device", "program", "pid"})
        self.compare("events", {f"{kind['properties']['kind']['const']}.{name}" for kind in kinds
                                for name in kind["properties"].keys() - common})

    def test_the_schema_of_answers(self):
        """Compares the table with the schema. Each test of an answer checks that the answer follows the schema."""
        answers = [answer["properties"] for answer in json_schema.load("commands")["oneOf"]]
        self.compare("answers", {f"{answer['command'].get('const', '*')}.{name}" for answer in answers
                                 for name in answer.keys() - {"command"}})
        commands = {name.split()[0] for name in self.table["commands"] if name.endswith(" --json")}
        self.assertEqual({answer["command"]["const"] for answer in answers if "const" in answer["command"]},
                         commands - {"events", "status"}, "a command with --json, and no answer of it in the schema")

    def test_sysfs(self):
        self.compare("sysfs", set().union(*(extract.tree(shadow, name) for name, shadow in self.shadows.items())))

    def test_counters(self):
        """sysfs, `verbena status` and the table have the same counters."""
        files = extract.hardware_counters(self.shadows["verbena0"], "verbena0")
        shown = set(self.status["devices"][0]["ports"][0]["counters"])
        self.assertEqual(shown, {name for name in files if not name.startswith("rx_drop_")})
        self.compare("counters", files)

    def test_each_row_names_a_test(self):
        known, files = rows.registered(CTEST, BUILD), sources.Sources()
        wrong = [f"[{kind}] {line}" for kind, names in self.table.items() for name, tests in names.items()
                 for line in rows.what_is_wrong(name, tests, known, files)]
        if wrong:
            self.fail("\n" + "\n".join(wrong))

    def test_a_case_that_does_not_name_the_thing_is_found(self):
        """Its file names the thing elsewhere."""
        files = sources.Sources()
        for name, ctest, case in (("capture --device", "integration.links.captures", "test_both_ends"),
                                  ("VERBENA_LINK", "integration.links", "test_status_names_the_link"),
                                  ("event qp-fatal", "integration.verbs.events.ib", "AClientIsAskedToRegisterAgain")):
            (line,) = rows.what_is_wrong(name, [(ctest, case)], {ctest}, files)
            self.assertIn("says anything of it", line)

    def test_the_manual_names_all(self):
        """The README of the preload library names the variables for its developers, the manual all others."""
        texts = [(rows.ROOT / path).read_text(encoding="utf-8")
                 for path in ("emulator/cli/share/verbena.1", "provider/preload/README.md")]
        manual = "".join(texts).replace("\\-", "-")
        commands = {word for name in self.table["commands"] for word in name.split()}
        known = commands.union(*(self.table[kind] for kind in ("variables", "settings", "rules")))
        self.assertEqual(sorted(word for word in known if word not in manual), [])

    def test_a_program_of_its_own_would_be_missed(self):
        """The comparison finds a declaration without a row, and a row without a declaration."""
        for declared in (set(self.table["settings"]) | {"colour"}, set(self.table["settings"]) - {"explain"}):
            with self.assertRaisesRegex(AssertionError, "colour: declared, and not in|explain: in the table"):
                self.compare("settings", declared)


if __name__ == "__main__":
    BUILD, CTEST = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
