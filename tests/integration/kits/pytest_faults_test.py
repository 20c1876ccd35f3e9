#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Faults of the pytest plugin end with their blocks, and leave what was there before.

    pytest_faults_test.py PREFIX
"""

import sys
import unittest

import pytest_test
from pytest_test import Case


class Faults(Case):
    def test_faults_end_with_their_blocks(self):
        self.write('''
            import pytest
            import verbena_pytest

            SERVER, CLIENT = "rping -s -a 127.0.0.1 -C 3", "rping -c -a 127.0.0.1 -C 3"

            def faults(verbena):
                return {(device["name"], fault["qpn"]): (fault["loss_ppm"], fault["delay_ns"], fault["seed"])
                        for device in verbena.status["devices"] for fault in device["faults"]}

            def rules(verbena):
                return [(rule.rule, rule.fired) for rule in verbena.rules]

            def test_values(verbena):
                with verbena.fault(loss="1%", seed=7):
                    outer = faults(verbena)
                    assert outer == {("verbena0", "all"): (10_000, 0, 7), ("verbena0", "0x000001"): (10_000, 0, 7)}
                    with verbena.fault(loss="5%", delay="1ms", data=True, seed=8):
                        assert faults(verbena)["verbena0", "all"] == (50_000, 1_000_000, 8)
                        with verbena.fault(loss=0, rate="1Gbit"):
                            assert faults(verbena)["verbena0", "all"] == (0, 1_000_000, 8)
                        assert faults(verbena)["verbena0", "all"] == (50_000, 1_000_000, 8)
                    assert faults(verbena) == outer
                assert faults(verbena) == {}

            def test_what_lasts(verbena):
                verbena.fault(delay="2ms", cm=True, seed=3)
                verbena.fault(inject="drop opcode=SEND nth=1 qp=client:1")
                verbena.pair(SERVER, CLIENT)
                before = rules(verbena)
                assert before == [("drop opcode=SEND nth=1 qp=client:1", 1)]
                with verbena.fault(loss="1%", inject=["drop opcode=SEND nth=2 qp=client:1", "duplicate nth=900"], seed=4):
                    with verbena.fault(inject="drop opcode=SEND nth=2 qp=client:1"):
                        assert len(rules(verbena)) == 4
                    verbena.pair(SERVER, CLIENT)
                    assert rules(verbena)[1:] == [("drop opcode=SEND nth=2 qp=client:1", 1), ("duplicate nth=900", 0)]
                assert rules(verbena) == [("drop opcode=SEND nth=1 qp=client:1", 2)]
                assert faults(verbena) == {("verbena0", "0x000001"): (0, 2_000_000, 3)}
                verbena.clear_faults()
                assert (faults(verbena), rules(verbena)) == ({}, [])

            @pytest.mark.verbena("--device", "a", "--device", "b")
            def test_of_one_device(verbena):
                verbena.fault(loss="1%", device="a", data=True, seed=5)
                before = faults(verbena)
                with verbena.fault(loss="2%"):
                    with verbena.fault(delay="1ms", device="b", seed=6):
                        assert faults(verbena)["b", "all"] == (20_000, 1_000_000, 6)
                    assert faults(verbena) == {(d, q): (20_000, 0, 5) for d in "ab" for q in ("all", "0x000001")}
                assert faults(verbena) == before

            def test_of_one_queue_pair(verbena):
                with verbena.start(["ibv_rc_pingpong", "-p", "0"]):
                    found = []
                    while not found:
                        found = [qp["qpn"] for context in verbena.status["devices"][0]["contexts"] for qp in context["qps"]]
                    qpn = found[0]
                    with verbena.fault(loss="1%", qp=qpn, seed=1):
                        with verbena.fault(loss="2%", qp=int(qpn, 16), seed=2):
                            assert faults(verbena)["verbena0", qpn] == (20_000, 0, 2)
                        assert faults(verbena) == {("verbena0", qpn): (10_000, 0, 1)}
                    assert faults(verbena) == {}
                    outer = verbena.fault(loss="1%", qp=qpn)
                    inner = verbena.fault(loss="2%", qp=qpn)
                inner.end()
                outer.end()
                assert faults(verbena) == {}

            def test_what_was_cleared_within(verbena):
                with verbena.fault(inject=["drop nth=900", "drop nth=901 attempt=2"]):
                    verbena.clear_faults()
                    verbena.fault(inject="drop nth=901 attempt=any")
                assert rules(verbena) == [("drop nth=901 attempt=any", 0)]

            def test_what_has_no_end(verbena):
                for values in ({"seed": 1}, {"clear": True}):
                    verbena.fault(loss="1%")
                    with pytest.raises(verbena_pytest.VerbenaError, match="takes a fault or a rule"):
                        with verbena.fault(**values):
                            pass

            def test_a_block_that_fails(verbena):
                with pytest.raises(ZeroDivisionError):
                    with verbena.fault(loss="1%", inject="drop nth=900"):
                        1 / 0
                assert (faults(verbena), rules(verbena)) == ({}, [])
            ''')
        self.assert_passed(self.pytest(), 7)

    def test_a_rule_that_kills_the_emulator(self):
        self.write('''
            import pytest
            import verbena_pytest

            KILL = "kill program=verbenad"

            def lives(verbena):
                try:
                    return bool(verbena.status)
                except verbena_pytest.VerbenaError:
                    return False

            def test_within(verbena):
                with verbena.fault(loss="1%", seed=7):
                    with verbena.fault(inject=KILL):
                        verbena.run("ibv_devinfo; sleep 0.2", check=False)
                    assert not lives(verbena)

            def test_of_a_file(verbena, tmp_path):
                (tmp_path / "kill.toml").write_text('[[event]]\\ndo = "kill"\\nprogram = "verbenad"\\nat = "1ms"\\n')
                with verbena.fault(scenario=tmp_path / "kill.toml"):
                    verbena.run("ibv_devinfo; sleep 0.2", check=False)
                assert not lives(verbena)

            def test_at_once(verbena):
                with verbena.start(["ibv_rc_pingpong", "-p", "0"]):
                    while not verbena.waits:
                        pass
                    with verbena.fault(inject=KILL):
                        while lives(verbena):
                            pass

            def test_an_assertion_within(verbena):
                with pytest.raises(ZeroDivisionError):
                    with verbena.fault(loss="1%"):
                        verbena.run("kill -9 $(cat $VERBENA_RUNTIME_DIR/daemon.lock); sleep 0.2")
                        1 / 0

            def test_an_emulator_that_nobody_was_to_kill(verbena):
                with pytest.raises(verbena_pytest.VerbenaError):
                    with verbena.fault(loss="1%"):
                        verbena.run("kill -9 $(cat $VERBENA_RUNTIME_DIR/daemon.lock); sleep 0.2")
            ''')
        self.assert_passed(self.pytest(), 5)


if __name__ == "__main__":
    pytest_test.PREFIX = sys.argv[1]
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
