#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs `verbena doctor` in sandboxes that take something away: it says where it runs and what is missing.

    doctor_test.py BUILD
"""

import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "provider"))
from device import Emulator  # noqa: E402

BUILD = None
LIMIT = 60
IS_CONTAINER = os.path.exists("/run/.containerenv") or os.path.exists("/.dockerenv")


class Sandboxes(unittest.TestCase):
    def setUp(self):
        self.device = self.enterContext(Emulator(BUILD))

    def doctor(self, *before, **variables):
        """Returns the exit code and the output of `verbena doctor`; `before` are words that make a sandbox."""
        done = subprocess.run([*before, self.device.verbena, "doctor"], env={**self.device.environment, **variables}, text=True,
                              capture_output=True, timeout=LIMIT, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_where_it_is(self):
        """The machine that runs the test may be a container itself: engines leave a file there."""
        code, text = self.doctor()
        self.assertEqual(code, 0, text)
        self.assertEqual("in a container" in text, IS_CONTAINER)

    def test_loopback_that_is_down(self):
        code, text = self.doctor("unshare", "--user", "--map-root-user", "--net")
        self.assertEqual(code, 1)
        self.assertRegex(text, r"FAULT  the loopback interface lo is down\n .*ip link set lo up")

    def test_no_proc(self):
        script = 'mount -t tmpfs none /proc && exec "$@"'
        code, text = self.doctor("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh")
        self.assertEqual(code, 1)
        self.assertIn("FAULT  /proc is not mounted", text)

    def test_user_namespaces(self):
        code, text = self.doctor("unshare", "--user", "--map-user", "4711")
        self.assertEqual(code, 0, text)
        self.assertIn(f"in a user namespace: user id 4711 here is {os.geteuid()} outside", text)
        code, text = self.doctor("unshare", "--user")
        self.assertIn("in a user namespace that does not map you", text)

    @unittest.skipUnless(os.geteuid() == 0, "only root can be somebody else")
    def test_another_user(self):
        """In a container that runs as another user, the runtime directory belongs to a foreign user."""
        self.device.folder.chmod(0o755)
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        code, text = self.doctor(*words, container="some-engine")
        self.assertEqual(code, 1)
        self.assertIn("in a container (some-engine)", text)
        self.assertRegex(text, r"FAULT  runtime directory \S+ belongs to user id 0, not to you.*\n"
                               r" +run the container as the user who started the emulator")
        code, text = self.doctor(*words)
        self.assertEqual("then try again: verbena doctor" in text, not IS_CONTAINER)

    def test_engines_name_themselves(self):
        for variable, name in (({"container": "podman"}, "podman"), ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "Kubernetes")):
            code, text = self.doctor(**variable)
            self.assertEqual(code, 0, text)
            self.assertIn(f"ok     in a container ({name})", text)


if __name__ == "__main__":
    BUILD = sys.argv[1]
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
