#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Programs of the distribution whose verbs fail on request.

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
            self.assertEqual(done.returncode, 125)
            self.assertIn(f"verbena: --fail {wrong}: ", done.stderr)
            done = self.run_program("--", "env", f"VERBENA_FAIL={wrong}", "ibv_devinfo")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"verbena: VERBENA_FAIL: {wrong}: ", done.stderr)

    def test_the_device_cannot_be_opened(self):
        done = self.run_program("--fail", "ibv_open_device=EMFILE", "--", "ibv_devinfo")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Failed to open device", done.stderr)
        self.assertIn("ibv_open_device: call 1 of this process fails with EMFILE", done.stderr)
        done = self.run_program("--fail", "ibv_open_device=EMFILE@2", "--", "ibv_devinfo")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_calls_of_librdmacm(self):
        """rping makes these calls in this order."""
        for function, error, told in (("rdma_create_event_channel", "EMFILE", "rdma_create_event_channel: "),
                                      ("rdma_create_id", "ENOMEM", "rdma_create_id: Cannot allocate memory"),
                                      ("rdma_resolve_addr", "ENETUNREACH", "rdma_resolve_addr: Network is unreachable"),
                                      ("rdma_resolve_route", "EHOSTUNREACH", "rdma_resolve_route: No route to host")):
            with self.subTest(function=function):
                done = self.run_program("--fail", f"{function}={error}", "--", "rping", "-c", "-a", "127.0.0.1", "-C", "1")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(told, done.stdout + done.stderr)
                self.assertIn(f"{function}: call 1 of this process fails with {error}", done.stderr)
        for function, error, told in (("rdma_bind_addr", "EADDRINUSE", "rdma_bind_addr: Address already in use"),
                                      ("rdma_listen", "EADDRINUSE", "rdma_listen: Address already in use")):
            with self.subTest(function=function):
                done = self.run_program("--fail", f"{function}={error}@1", "--", "rping", "-s", "-a", "127.0.0.1", "-C", "1")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(told, done.stdout + done.stderr)
        done = self.run_program("--fail", "rdma_create_id=ENOMEM", "--", "env", "VERBENA_LOG=explain-all",
                                "rping", "-c", "-a", "127.0.0.1", "-C", "1")
        self.assertIn("rdma_create_id: call 1 of this process fails with ENOMEM", done.stderr)


if __name__ == "__main__":
    PREFIX = sys.argv.pop(1)
    unittest.main()
