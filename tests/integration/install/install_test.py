#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What `cmake --install` makes works from where it is put, for any user.

install_test.py BUILD
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "provider"))
from device import Emulator, Pair  # noqa: E402

sys.path.insert(0, str(HERE.parents[2] / "kits/python"))
import wheel  # noqa: E402

BUILD = None
LIMIT = 60
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="verbena-install-")
        os.chmod(cls.folder, 0o755)
        cls.prefix = pathlib.Path(cls.folder, "some-where-else")
        done = subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.prefix], text=True, capture_output=True,
                              timeout=LIMIT, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def setUp(self):
        self.device = Emulator(self.prefix)
        self.device.as_user(NOBODY)
        self.enterContext(self.device)

    def shell(self, script, shell="sh", before=(), **variables):
        words = [*before, *NOBODY, shell, "-c", script, "sh", self.device.verbena]
        return subprocess.run(words, env={**self.device.environment, **variables}, text=True, capture_output=True,
                              timeout=LIMIT, check=False)

    def test_nothing_but_what_is_needed(self):
        found = {str(path.relative_to(self.prefix)) for path in self.prefix.rglob("*") if not path.is_dir()}
        found = {re.sub("^lib/[^/]*-linux-gnu/", "lib/", name) for name in found}
        numbers = (25, 33, 34, 57, 59, 64, 65)
        self.assertEqual(found, {
            "bin/verbena", "bin/verbenad", "lib/libverbena-preload.so", "lib/libverbena-rdmav.so",
            *(f"lib/libverbena-rdmav{number}.so" for number in numbers), "etc/libibverbs.d/verbena.driver",
            "share/man/man1/verbena.1", "share/verbena/tsan.supp", "share/bash-completion/completions/verbena",
            *(f"share/verbena/ci/{name}.sh" for name in ("annotate", "export", "setup")),
            f"share/verbena/verbena_pytest-{wheel.version()}-py3-none-any.whl",
            "share/zsh/site-functions/_verbena", "share/fish/vendor_completions.d/verbena.fish"})

    def test_pingpong_as_nobody(self):
        pair = Pair(self.device, ["ibv_rc_pingpong", "-n", "100"])
        self.assertTrue(pair.ok, pair.report())
        self.assertGreaterEqual(self.device.sent_packets(), 200)

    def test_doctor(self):
        done = self.device.control("doctor")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(f"{self.prefix}/lib", done.stdout)

    def test_environment_of_a_shell(self):
        for shell in ("sh", "bash"):
            done = self.shell('eval "$("$1" env)"; ibv_devices; ibv_devinfo -d verbena0 | grep -c PORT_ACTIVE', shell)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("verbena0", done.stdout)
            self.assertEqual(done.stdout.splitlines()[-1], "1")

    def test_driver_file(self):
        """In /etc/libibverbs.d it takes the place of RDMAV_DRIVERS: as any provider's does."""
        driver = self.prefix / "etc/libibverbs.d/verbena.driver"
        preload = next(self.prefix.glob("lib/**/libverbena-preload.so"))
        name = driver.read_text().split()[1]
        self.assertTrue(pathlib.Path(name + "-rdmav34.so").exists(), name)
        private = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
        if subprocess.run([*private, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this container may not make a mount namespace")
        before = [*private, "sh", "-c", f'mount -t tmpfs -o mode=755 none /etc/libibverbs.d && '
                  f'cp {driver} /etc/libibverbs.d && exec "$@"', "sh"]
        script = f"LD_PRELOAD={preload} ibv_devinfo"
        self.assertNotIn("PORT_ACTIVE", self.shell(script).stdout)
        done = self.shell(script, before=before)
        self.assertIn("PORT_ACTIVE", done.stdout, done.stderr)

    def test_completion_is_loaded_by_bash(self):
        script = ('. "$2"; COMP_WORDS=(verbena fault --lo); COMP_CWORD=2; _verbena; echo "${COMPREPLY[@]}"; '
                  "complete -p verbena")
        done = subprocess.run(["bash", "-c", script, "bash", "-", self.prefix / "share/bash-completion/completions/verbena"],
                              text=True, capture_output=True, timeout=LIMIT, check=False)
        self.assertEqual(done.stdout, "--loss\ncomplete -F _verbena verbena\n", done.stderr)

    def test_manual_names_every_command_and_option(self):
        page = (self.prefix / "share/man/man1/verbena.1").read_text()
        page = re.sub(r"\\f[BIR]", "", page).replace("\\-", "-")
        script = self.device.control("completion", "bash").stdout
        words = set(re.findall(r"compgen -W '([^']*)'", script))
        for word in {word for line in words for word in line.split()} - {"--help"}:
            self.assertRegex(page, rf"(?<![\w-]){re.escape(word)}(?![\w-])", word)

    def test_staged_installation(self):
        """DESTDIR, as packagers use it: the paths inside are those of the final place."""
        staged = pathlib.Path(self.folder, "staged")
        subprocess.run(["cmake", "--install", BUILD, "--prefix", "/usr"], env={**os.environ, "DESTDIR": str(staged)},
                       check=True, capture_output=True, timeout=LIMIT)
        driver = (staged / "etc/libibverbs.d/verbena.driver").read_text()
        self.assertRegex(driver, r"^driver /usr/lib[\w/-]*/libverbena\n$")
        self.assertTrue((staged / "usr/bin/verbena").exists())
        self.assertTrue(list(staged.glob("usr/lib*/**/libverbena-rdmav34.so")))


if __name__ == "__main__":
    BUILD = sys.argv[1]
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
