#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The pytest plugin, from its wheel: what the fixture does, and what is said when it cannot work.

    pytest_test.py PREFIX
"""

import base64
import hashlib
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
import zipfile

from kit_case import LIMIT, ROOT, KitCase, emulators_of

PREFIX = None


class Case(KitCase):
    @classmethod
    def setUpClass(cls):
        cls.site = tempfile.TemporaryDirectory(prefix="verbena-kits-site-")
        cls.wheel = next(pathlib.Path(PREFIX, "share/verbena").glob("*.whl"))
        with zipfile.ZipFile(cls.wheel) as archive:
            archive.extractall(cls.site.name)

    @classmethod
    def tearDownClass(cls):
        cls.site.cleanup()

    def setUp(self):
        super().setUp()
        self.environment = {"PATH": f"{PREFIX}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent",
                            "PYTHONPATH": self.site.name, "TMPDIR": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1",
                            "VERBENA_RUNTIME_DIR": str(self.outer / "run")}

    def write(self, text, name="test_sample.py"):
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return path

    def words(self, *words):
        return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]

    def pytest(self, *words, before=(), **variables):
        return subprocess.run([*before, *self.words(*words)], cwd=self.folder, env={**self.environment, **variables},
                              text=True, errors="replace", capture_output=True, timeout=LIMIT, check=False)

    def assert_passed(self, done, number):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, rf"\b{number} passed\b")


class Wheel(Case):
    def test_always_the_same_bytes(self):
        made = [subprocess.run([sys.executable, ROOT / "kits/python/wheel.py", self.folder], text=True, check=True,
                               capture_output=True).stdout.strip() for _ in range(2)]
        self.assertEqual(made[0], made[1])
        self.assertEqual((self.folder / made[0]).read_bytes(), self.wheel.read_bytes())

    def test_its_record(self):
        with zipfile.ZipFile(self.wheel) as archive:
            record = next(name for name in archive.namelist() if name.endswith("RECORD"))
            rows = [line.split(",") for line in archive.read(record).decode().splitlines()]
            self.assertEqual([row[0] for row in rows], archive.namelist())
            for name, digest, size in rows[:-1]:
                data = archive.read(name)
                wanted = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, int(size)), ("sha256=" + wanted, len(data)), name)

    def test_no_folder(self):
        done = subprocess.run([sys.executable, ROOT / "kits/python/wheel.py", "/no/such/folder"], text=True,
                              capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (1, "wheel.py: name the folder that the wheel is written to\n"))


class Fixture(Case):
    def test_programs_and_what_they_leave(self):
        self.write('''
            import pytest
            import verbena_pytest

            def test_a_program(verbena):
                assert "verbena0" in verbena.run(["ibv_devices"], timeout=None).stdout
                done = verbena.run("echo out; echo err >&2; exit 3", check=False)
                assert (done.returncode, done.stdout, done.stderr, done.ok) == (3, "out\\n", "err\\n", False)

            def test_its_lines(verbena):
                """Only \\n ends a line; what else may separate lines is the program's own."""
                text = "1\\\\r2\\\\f3\\\\v\\\\034\\\\302\\\\205\\\\r\\\\nend"
                wanted = "1\\r2\\f3\\v\\x1c\\x85\\r\\nend"
                assert verbena.run(["printf", text]).stdout == wanted
                done = verbena.pair("rping -s -a 127.0.0.1", f"printf '{text}'")
                assert done.client == wanted + "\\n"
                assert not done.server

            def test_a_program_that_fails(verbena):
                with pytest.raises(verbena_pytest.ProgramFailed, match="(?s)ibv_rc_pingpong: exit code 1.*fails with ENOMEM"):
                    verbena.run(["ibv_rc_pingpong"], fail=["ibv_reg_mr=ENOMEM"])

            def test_a_program_that_does_not_end(verbena):
                with pytest.raises(verbena_pytest.ProgramFailed, match="has not ended within 0.5 s"):
                    verbena.run("sleep 1000 & echo $!; wait", timeout=0.5)
                child = int(verbena.programs[-1].stdout)
                with pytest.raises(verbena_pytest.ProgramFailed, match="did not print 'ready'"):
                    verbena.start(["true"]).wait_for_output("ready")
                verbena.run(f"while kill -0 {child} 2>/dev/null && ! grep -q ') Z' /proc/{child}/stat; do :; done")

            def test_one_that_hangs(verbena):
                is_in_init = r"what the programs waited for:\\nibv_rc_pingpong\\[\\d+\\]: RC QP 0x\\w+ is in INIT"
                with verbena.start(["ibv_rc_pingpong", "-p", "0"]) as program:
                    while not any("is in INIT" in line for line in verbena.waits):
                        pass
                    with pytest.raises(verbena_pytest.ProgramFailed, match=is_in_init):
                        program.wait(0.1)

            def test_one_in_the_background(verbena):
                with verbena.start("echo ready; exec sleep 1000") as program:
                    program.wait_for_output("ready")
                    assert program.is_running
                assert program.returncode == -15

            def test_its_directory_and_variables(verbena, tmp_path):
                assert verbena.run("echo $WORD; pwd", env={"WORD": "x"}, cwd=tmp_path).stdout == f"x\\n{tmp_path}\\n"
                (tmp_path / "in").write_text("said")
                with (tmp_path / "in").open() as said:
                    assert verbena.run(["cat"], stdin=said).stdout == "said"
                assert verbena.run("cat", stdin="h\u00f6rt\\n").stdout == "h\u00f6rt\\n"
                assert verbena.run(["wc", "-c"], stdin=b"\\xff" * 100_000).stdout == "100000\\n"

            def test_faults_of_one_program(verbena):
                for options in ({"loss": "1%"}, {"inject": "drop"}, {"cm": True}, {"seed": 0}):
                    with pytest.raises(verbena_pytest.VerbenaError, match=rf"{next(iter(options))} is .* verbena\.fault\(\)"):
                        verbena.run(["true"], **options)
                    with pytest.raises(verbena_pytest.VerbenaError, match=r"verbena\.fault\(\)"):
                        verbena.pair("true", "true", **options)
            ''')
        self.assert_passed(self.pytest(), 8)
        self.assertFalse([*self.folder.glob("verbena-*"), *self.outer.glob("run/private-*")])

    def test_pairs_and_rules(self):
        """The ports of rdma_cm are the emulator's own, so it does not matter on which ports other tests listen."""
        self.write('''
            import pytest
            import verbena_pytest

            SERVER, CLIENT = "rping -s -a 127.0.0.1 -C 10 -v", "rping -c -a 127.0.0.1 -C 10 -v"

            def test_a_pair(verbena):
                before = verbena.counters
                done = verbena.pair(SERVER, CLIENT)
                assert done.client.count("ping data") == done.server.count("server ping data") == 10
                assert verbena.counters.since(before)["sent_sends"] > 10

            def test_its_capture(verbena, tmp_path):
                verbena.pair(SERVER, CLIENT, capture=tmp_path / "file.pcapng")
                assert (tmp_path / "file.pcapng").stat().st_size > 1000

            def test_a_client_that_fails(verbena):
                with pytest.raises(verbena_pytest.ProgramFailed, match="exit code 3") as failure:
                    verbena.pair(SERVER, "echo no >&2; exit 3")
                assert failure.value.finished.client == "no\\n"
                done = verbena.pair(SERVER, CLIENT, fail="ibv_reg_mr=ENOMEM", check=False)
                assert done.returncode != 0 and any("ENOMEM" in line for line in done.explanations)

            def test_a_rule_that_fires(verbena, tmp_path):
                with verbena.fault(inject="drop opcode=SEND nth=3 qp=client:1"):
                    verbena.pair(SERVER, CLIENT)
                    assert [(rule.rule, rule.fired) for rule in verbena.rules] == [("drop opcode=SEND nth=3 qp=client:1", 1)]
                assert verbena.rules == []
                (tmp_path / "rules.toml").write_text('[[rule]]\\naction = "drop"\\nopcode = "SEND"\\nnth = 7\\n')
                with verbena.fault(scenario=tmp_path / "rules.toml"):
                    assert [rule.rule for rule in verbena.rules] == ["drop opcode=SEND nth=7"]
                assert verbena.counters["retransmitted_packets"] > 0
            ''')
        self.assert_passed(self.pytest(), 4)

    def test_each_test_has_a_device_of_its_own(self):
        self.write('''
            import json
            import pytest
            import verbena_pytest

            @pytest.mark.verbena("--device", "mlx5_0")
            def test_options(verbena):
                assert "mlx5_0" in verbena.run("ibv_devices").stdout

            def test_a_port_that_is_down(verbena):
                verbena.ask("port", "verbena0", "down")
                assert verbena.status["devices"][0]["ports"][0]["state"] == "DOWN"

            def test_the_next_one(verbena):
                assert verbena.status["devices"][0]["ports"][0]["state"] == "ACTIVE"
                with pytest.raises(verbena_pytest.VerbenaError, match="verbena port verbena7 down.*verbena7"):
                    verbena.ask("port", "verbena7", "down")

            def test_faults(verbena):
                faults = lambda: [(f["loss_ppm"], f["seed"]) for f in verbena.status["devices"][0]["faults"]]
                with verbena.fault(loss="1%", data=True, seed=7):
                    assert faults() == [(10000, 7)]
                assert faults() == []
                verbena.fault(loss="2%", data=True)
                assert faults()[0][0] == 20000
                assert verbena.faults[-1] == f"--loss 2% --data --seed {faults()[0][1]}"

            def test_counters(verbena):
                assert verbena.counters["port_xmit_packets"] == 0
                with pytest.raises(KeyError, match="no counter 'port_xmit_packet'; did you mean port_xmit_packets"):
                    verbena.counters["port_xmit_packet"]
                assert verbena.drops == {}

            def test_events(verbena):
                assert [event["kind"] for event in verbena.events()] == ["emulator_up"]
                verbena.ask("port", "verbena0", "down")
                number = verbena.events()[-1]["seq"]
                verbena.run("ibv_devinfo")
                assert [event["state"] for event in verbena.events("port")] == ["DOWN"]
                assert [event["kind"] for event in verbena.events(after=number)] == ["opened", "closed"]
                assert verbena.events("closed")[0]["program"] == "ibv_devinfo"

            def test_a_capture(verbena, tmp_path):
                with verbena.capture(tmp_path / "packets.pcapng") as path:
                    pass
                assert path.read_bytes()[:4] == b"\\x0a\\x0d\\x0d\\x0a"
            ''')
        self.assert_passed(self.pytest(), 7)

    def test_an_environment_for_other_starters(self):
        self.write('''
            import subprocess

            def test_it(verbena):
                shown = subprocess.run(["ibv_devices"], env=verbena.environment, text=True, capture_output=True).stdout
                assert "verbena0" in shown
            ''')
        self.assert_passed(self.pytest(), 1)

    LEAVES = """
        import time

        def test_it(verbena):
            for name, deaf in (("first", ""), ("second", 'trap "" TERM; ')):
                daemon = f"setsid sh -c '{deaf}echo $$ > {name}; exec sleep 1000'"
                verbena.run(f"{daemon} > /dev/null 2>&1 & while [ ! -s {name} ]; do :; done")
                verbena.run(f"kill -0 $(cat {name})")
        """

    def assert_none_is_left(self):
        pids = [(self.folder / name).read_text().strip() for name in ("first", "second")]
        self.until(lambda: not any(pathlib.Path("/proc", pid, "environ").exists() for pid in pids), "they live")

    def test_what_programs_leave_ends_with_the_test(self):
        self.write(self.LEAVES)
        self.assert_passed(self.pytest(), 1)
        self.assert_none_is_left()

    def test_nothing_stays_when_pytest_is_killed(self):
        self.write(textwrap.dedent(self.LEAVES) + '''
            open("started", "w").close()
            time.sleep(1000)
            '''.replace("            ", "    "))
        with subprocess.Popen(self.words(), cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL) as process:
            try:
                self.until((self.folder / "started").exists, "the test has not begun")
                self.assertEqual(len(emulators_of(self.outer)), 1)
            finally:
                process.kill()
        self.until(lambda: not emulators_of(self.outer), "the emulator has not ended")
        self.assert_none_is_left()
        self.assertFalse([*self.folder.glob("verbena-pytest-*")])


class InProcess(Case):
    def setUp(self):
        super().setUp()
        shutil.copytree(ROOT / "examples/python", self.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("_*"))

    def test_pytest_starts_itself_anew(self):
        self.assert_passed(self.pytest("--verbena-in-process"), 6)
        self.write("[pytest]\nverbena_in_process = true\n", "pytest.ini")
        self.assert_passed(self.pytest("-k", "arrive"), 4)

    def test_below_verbena_run(self):
        directory = {"VERBENA_RUNTIME_DIR": str(self.new_folder() / "run")}
        self.assert_passed(self.pytest("-k", "nothing_reaches", before=["verbena", "run", "--"], **directory), 1)

    def test_explanations_of_the_own_process_are_kept(self):
        test = self.folder / "test_connected.py"
        test.write_text(test.read_text().replace('["retry_exceeded_err"] == 1', '["retry_exceeded_err"] == 2'))
        done = self.pytest("--verbena-in-process", "-k", "nothing_reaches")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        explained = next(self.folder.glob("verbena-artifacts/*/explain.log")).read_text()
        self.assertIn("retr", explained)


class Unfit(Case):
    def said(self, *words, code=1, **variables):
        self.write("def test_it(verbena): pass\n")
        done = self.pytest(*words, **variables)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertNotIn("During handling", done.stdout)  # the reason once
        return done.stdout + done.stderr

    def script(self, text):
        path = self.write("#!/bin/sh\n" + text, "verbena")
        path.chmod(0o755)
        return str(path)

    def test_no_verbena(self):
        said = self.said(PATH="/usr/bin:/bin")
        self.assertIn("verbena: there is no program 'verbena': install Verbena and put it into PATH, or name it with", said)
        said = self.said("--verbena-in-process", code=4, PATH="/usr/bin:/bin")
        self.assertIn("ERROR: verbena: there is no program 'verbena'", said)

    def test_named_by_an_option_or_a_setting(self):
        program = f"{PREFIX}/bin/verbena"
        self.assertIn("1 passed", self.said("--verbena", program, code=0, PATH="/usr/bin:/bin"))
        self.write(f"[pytest]\nverbena_program = {program}\n", "pytest.ini")
        self.assertIn("1 passed", self.said(code=0, PATH="/usr/bin:/bin"))

    def test_another_version(self):
        said = self.said("--verbena", self.script("echo verbena 9.9.9"))
        self.assertRegex(said, r"verbena: /.+ is Verbena 9.9.9, and this is verbena-pytest [\d.]+: install both from one release")

    def test_another_program(self):
        said = self.said("--verbena", self.script("echo what?; exit 1"))
        self.assertRegex(said, r"verbena: /.+ is not Verbena: 'version' says 'what\?'")

    def test_options_that_the_device_cannot_have(self):
        self.write('''
            import pytest

            @pytest.mark.verbena("--fabric", "10.0.0.0/99")
            def test_it(verbena): pass
            ''')
        done = self.pytest()
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"verbena: the device could not be had: .*10\.0\.0\.0/99")


if __name__ == "__main__":
    PREFIX = sys.argv[1]
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
