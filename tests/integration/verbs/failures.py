#!/usr/bin/env python3
"""Programs of the distribution whose verbs fail because they shall.

failures.py PREFIX
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "provider"))
import device as devices  # noqa: E402

PREFIX = None


class Failures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = cls.enterClassContext(devices.Emulator(PREFIX))

    def run_program(self, *words):
        return self.device.control("run", *words)

    def test_a_program_meets_what_it_never_met(self):
        for verb, error, told in (("ibv_alloc_pd", "ENOMEM", "Couldn't allocate PD"),
                                  ("ibv_reg_mr", "EFAULT", "Couldn't register MR"),
                                  ("ibv_create_cq", "ENOMEM", "Couldn't create CQ"),
                                  ("ibv_create_qp", "ENOMEM", "Couldn't create QP"),
                                  ("ibv_modify_qp", "EINVAL", "Failed to modify QP to INIT"),
                                  ("ibv_post_recv", "ENOMEM", "Couldn't post receive (0)")):
            with self.subTest(verb=verb):
                done = self.run_program("--fail", f"{verb}={error}", "--", "ibv_rc_pingpong")
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(told, done.stderr)
                self.assertIn(f"{verb}: call 1 of this process fails with {error}", done.stderr)

    def test_the_call_that_was_named(self):
        done = self.run_program("--fail", "ibv_post_recv=ENOMEM@4", "--", "ibv_rc_pingpong")
        self.assertIn("Couldn't post receive (3)", done.stderr)

    def test_others_go_on(self):
        done = self.run_program("--fail", "ibv_reg_mr=EIO", "--fail", "ibv_create_qp=EIO@2+",
                                "--", "ibv_devinfo", "-v")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("PORT_ACTIVE", done.stdout)

    def test_a_wrong_list_is_no_list(self):
        for wrong in ("ibv_reg_mr", "ibv_reg_mr=ENOMEMORY", "ibv_register=ENOMEM"):
            done = self.run_program("--fail", wrong, "--", "ibv_devinfo")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"verbena: VERBENA_FAIL: {wrong}: ", done.stderr)


if __name__ == "__main__":
    PREFIX = sys.argv.pop(1)
    unittest.main()
