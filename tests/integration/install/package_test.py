#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The packages that scripts/package makes of a build tree, without another compilation: what is in them, that they are
the same twice, and that the tarball works where it is unpacked.

    package_test.py BUILD
"""

import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent / "provider"))
from device import Emulator, Pair  # noqa: E402

BUILD = None
LIMIT = 180
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
DATE = "1700000000"


def package(*words, **variables):
    return subprocess.run([ROOT / "scripts/package", *words], text=True, capture_output=True, timeout=LIMIT, check=False,
                          env={**os.environ, "SOURCE_DATE_EPOCH": DATE, **variables})


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="verbena-packages-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.folder.chmod(0o755)
        cls.output = cls.folder / "packages"
        done = package("--from", BUILD, "--only", "tar", "--output", str(cls.output))
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        cls.tarball = next(path for path in cls.output.iterdir() if re.search(r"linux-\w+\.tar", path.name))
        cls.name = cls.tarball.name.removesuffix(".tar.gz")
        (cls.folder / "unpacked").mkdir()
        subprocess.run(["tar", "-C", cls.folder / "unpacked", "-xf", cls.tarball], check=True)
        cls.prefix = cls.folder / "unpacked" / cls.name

    def test_the_tarball_works_where_it_is_unpacked(self):
        device = Emulator(self.prefix)
        device.as_user(NOBODY)
        with device:
            pair = Pair(device, ["ibv_rc_pingpong", "-n", "100"])
            self.assertTrue(pair.ok, pair.report())
            self.assertGreaterEqual(device.sent_packets(), 200)
            doctor = device.control("doctor")
            self.assertEqual(doctor.returncode, 0, doctor.stdout)
            self.assertIn(str(self.prefix), doctor.stdout)

    def test_the_tarball_is_the_same_twice(self):
        again = self.folder / "again"
        self.assertEqual(package("--from", BUILD, "--only", "tar", "--output", str(again)).returncode, 0)
        for name in (f"{self.name}.tar.gz", f"{self.name}-debug.tar.gz"):
            self.assertEqual((self.output / name).read_bytes(), (again / name).read_bytes(), name)

    def test_what_is_in_the_tarball(self):
        with tarfile.open(self.tarball) as tar:
            members = tar.getmembers()
        self.assertEqual({member.name.split("/")[0] for member in members}, {self.name})
        self.assertEqual({(member.uid, member.gid, member.mtime) for member in members}, {(0, 0, int(DATE))})
        names = [member.name.split("/") for member in members]
        self.assertEqual(names, sorted(names))
        self.assertLess(sum(member.size for member in members), 8 << 20)
        for member in members:
            self.assertEqual(member.mode & 0o022 if not member.issym() else 0, 0, member.name)

    def deb(self):
        output = self.folder / "deb"
        if not output.exists():
            done = package("--from", BUILD, "--only", "deb", "--output", str(output))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return next(output.glob("*.deb"))

    def test_what_is_older_than_its_commit_has_its_date_in_the_deb(self):
        output = self.folder / "later"
        later = 1900000000
        done = package("--from", BUILD, "--only", "deb", "--output", str(output), SOURCE_DATE_EPOCH=str(later))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        words = ["dpkg-deb", "--fsys-tarfile", next(output.glob("*.deb"))]
        files = subprocess.run(words, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(files)) as tar:
            self.assertEqual({member.mtime for member in tar.getmembers()}, {later})

    def test_what_the_deb_says(self):
        version = subprocess.run([self.prefix / "bin/verbena", "version"], text=True, capture_output=True,
                                 check=True).stdout.split()[1]
        said = subprocess.run(["dpkg-deb", "--field", self.deb()], text=True, capture_output=True, check=True).stdout
        for line in ("Package: verbena", f"Version: {version}", f"Provides: python3-verbena (= {version})"):
            self.assertIn(line + "\n", said)

    def test_the_deb_has_the_fixture_of_pytest(self):
        """The system's Python finds the fixture without pip."""
        tree = self.folder / "installed"
        subprocess.run(["dpkg-deb", "--extract", self.deb(), tree], check=True)
        tests = self.folder / "tests"
        tests.mkdir()
        (tests / "test_it.py").write_text("def test_it(verbena):\n    verbena.run(['ibv_devinfo', '-d', 'verbena0'])\n")
        words = ["/usr/bin/python3", "-B", "-m", "pytest", "-p", "no:cacheprovider", "--verbena", tree / "usr/bin/verbena", tests]
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tree / "usr/lib/python3/dist-packages"), "HOME": "/nonexistent",
                       "XDG_RUNTIME_DIR": str(self.folder)}
        done = subprocess.run(words, text=True, capture_output=True, timeout=LIMIT, check=False, env=environment,
                              cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("verbena-pytest", done.stdout + done.stderr)

    def test_debug_information_is_of_these_programs(self):
        subprocess.run(["tar", "-C", self.folder, "-xf", self.output / f"{self.name}-debug.tar.gz"], check=True)
        debug = self.folder / f"{self.name}-debug" / "lib/debug"
        program = self.prefix / "bin/verbenad"
        named = subprocess.run(["gdb", "-nx", "-batch", "-ex", f"set debug-file-directory {debug}", "-ex", f"file {program}",
                                "-ex", "info line main"], text=True, capture_output=True, timeout=LIMIT, check=False)
        self.assertRegex(named.stdout, r'Line \d+ of ".*daemon/src/main\.cpp"', named.stderr)

    def test_wrong_words(self):
        for words, text in ((("--only", "zip"), "no packages of kind 'zip'"), (("--from", "/nowhere"), "/nowhere is not a build"),
                            (("--colour",), "do not know '--colour'")):
            done = package(*words, "--output", str(self.folder / "nothing"))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(text, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertFalse((self.folder / "nothing").exists())


if __name__ == "__main__":
    BUILD = sys.argv[1]
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
