#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What `verbena cdi` writes, and when it refuses to write.

    cdi_test.py BUILD
"""

import json
import os
import pathlib
import shlex
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "provider"))
from device import Emulator  # noqa: E402

BUILD = None
LIMIT = 60


class Cdi(unittest.TestCase):
    def setUp(self):
        self.device = self.enterContext(Emulator(BUILD, "--device", "left", "--device", "right"))
        self.folder = pathlib.Path(self.device.folder)

    def cdi(self, *words, **variables):
        return subprocess.run([self.device.verbena, "cdi", *words], env={**self.device.environment, **variables}, text=True,
                              capture_output=True, timeout=LIMIT, check=False, errors="surrogateescape")

    def specification(self, *words):
        done = self.cdi(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_what_is_in_it(self):
        found = self.specification()
        self.assertEqual(found["cdiVersion"], "0.5.0")
        self.assertEqual(found["kind"], "verbena.dev/rdma")
        self.assertEqual([device["name"] for device in found["devices"]], ["left", "right"])
        edits = [device["containerEdits"] for device in found["devices"]]
        self.assertEqual(edits[0], edits[1])
        mounts = found["containerEdits"]["mounts"] + edits[0]["mounts"]
        for mount in mounts:
            self.assertTrue(pathlib.Path(mount["hostPath"]).exists(), mount)
            self.assertEqual(set(mount["options"]) - {"ro", "rw"}, {"bind", "nosuid", "nodev"})
            self.assertEqual("rw" in mount["options"], mount["containerPath"] == "/run/verbena", mount)
        inside = {mount["containerPath"] for mount in mounts}
        self.assertLessEqual({"/opt/verbena/bin/verbena", "/opt/verbena/bin/verbenad", "/opt/verbena/lib/libverbena-preload.so",
                              "/opt/verbena/lib/libverbena-rdmav34.so", "/run/verbena"}, inside)
        self.assertEqual(len(inside), len(mounts))

    def test_variables_are_those_of_env_with_other_paths(self):
        """Each path that `verbena env` exports exists in the container, as a mount of the same file."""
        found = self.specification()
        mounts = found["containerEdits"]["mounts"] + found["devices"][0]["containerEdits"]["mounts"]
        outside = {mount["containerPath"]: mount["hostPath"] for mount in mounts}
        inside = dict(text.split("=", 1) for text in found["containerEdits"]["env"])
        lines = self.device.control("env").stdout.splitlines()
        exported = dict(shlex.split(line)[1].split("=", 1) for line in lines)
        self.assertEqual(set(inside), set(exported))
        for name, path in exported.items():
            end = "-rdmav34.so" if name == "RDMAV_DRIVERS" else ""
            self.assertEqual(outside[inside[name] + end], path + end)

    def test_nothing_of_the_shell_gets_in(self):
        done = self.cdi(LD_PRELOAD="libm.so.6", RDMAV_DRIVERS="other")
        self.assertNotIn("libm.so.6", done.stdout)
        self.assertNotIn("other", done.stdout)

    def test_into_a_file(self):
        file = self.folder / "verbena.json"
        done = self.cdi("--output", str(file))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(json.loads(file.read_text()), self.specification())
        self.assertEqual(file.stat().st_mode & 0o777, 0o644)
        self.assertEqual(self.cdi("--output", str(file)).returncode, 0, "once more, over the old one")

    def test_into_what_is_no_file(self):
        """`--output` does not replace what is no file. Links stand for devices here, so no device is at risk."""
        link = self.folder / "link"
        link.symlink_to("/proc/self/fd/1")
        self.assertEqual(self.specification("--output", str(link)), self.specification())
        self.assertTrue(link.is_symlink())
        link.unlink()
        link.symlink_to("/dev/full")
        done = self.cdi("--output", str(link))
        self.assertEqual((done.returncode, done.stderr), (1, f"verbena: cannot write {link}: No space left on device\n"))
        self.assertTrue(link.is_symlink())

    def test_of_a_private_emulator(self):
        self.assertEqual(self.device.control("up", "--private", "ci").returncode, 0)
        self.addCleanup(self.device.control, "down", "--private", "ci")
        found = json.loads(self.cdi("--private", "ci").stdout)
        mounts = [mount["hostPath"] for device in found["devices"] for mount in device["containerEdits"]["mounts"]]
        self.assertEqual(mounts, [self.device.environment["VERBENA_RUNTIME_DIR"] + "/private-ci"])
        done = self.cdi("--private", "none")
        self.assertEqual((done.returncode, done.stderr), (1, "verbena: no private emulator none is running; start one with: "
                                                             "verbena up --private none\n"))

    def test_a_path_that_json_cannot_hold(self):
        folder = os.fsencode(self.folder) + b"/\xff"
        os.rename(self.device.environment["VERBENA_RUNTIME_DIR"], folder)
        done = self.cdi(VERBENA_RUNTIME_DIR=os.fsdecode(folder))
        os.rename(folder, self.device.environment["VERBENA_RUNTIME_DIR"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("verbena: JSON, and so a specification, cannot hold a path that is not UTF-8: one of ", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_where_nothing_can_be_written(self):
        done = self.cdi("--output", str(self.folder / "not" / "there.json"))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, f"verbena: cannot write {self.folder}/not/there.json: No such file or directory\n")
        (self.folder / "is-a-folder").mkdir()
        done = self.cdi("--output", str(self.folder / "is-a-folder"))
        self.assertEqual(done.returncode, 1)
        self.assertEqual([path.name for path in self.folder.iterdir() if ".part" in path.name], [])

    def test_without_an_emulator(self):
        self.device.control("down")
        file = self.folder / "verbena.json"
        done = self.cdi("--output", str(file))
        self.assertEqual(done.returncode, 1)
        self.assertIn("no emulator is running", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertFalse(file.exists())

    def test_engines_that_are_too_old(self):
        """The test puts programs in place of the engines, which print what those engines print."""
        tools = self.folder / "tools"
        tools.mkdir()
        path = f"{tools}:{os.environ['PATH']}"
        for engine, says, verdict in (
                ("podman", "podman version 4.0.3", "podman 4.0 does not know CDI; use podman 4.1"),
                ("podman", "podman version 3.4.4", "podman 3.4 does not know CDI"),
                ("podman", "podman version 4.3.1", None), ("podman", "podman version 10.0.0", None),
                ("docker", "Docker version 24.0.7, build afdd53b", "docker 24.0 does not know CDI; use docker 25.0"),
                ("docker", "Docker version 25.0.3, build 4debf41", None),
                ("docker", "", "`docker --version` names no version")):
            (tools / engine).write_text(f"#!/bin/sh\necho '{says}'\n")
            (tools / engine).chmod(0o755)
            done = self.cdi("--check", engine, PATH=path)
            self.assertEqual(done.returncode, 2 if verdict else 0, done.stderr)
            self.assertEqual(done.stdout == "", verdict is not None, says)
            if verdict:
                self.assertIn(verdict, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertEqual(self.cdi("--check", "chroot").returncode, 2)


if __name__ == "__main__":
    BUILD = sys.argv[1]
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
