#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What `cmake --install` makes works in the folder where it is put, for any user.

    install_test.py BUILD
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
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
            "lib/systemd/user/verbena.service", "share/pkgconfig/verbena.pc", "share/cmake/Verbena/VerbenaConfig.cmake",
            "share/cmake/Verbena/VerbenaConfigVersion.cmake", "share/cmake/Verbena/VerbenaTesting.cmake",
            *(f"include/verbena/{name}.hpp" for name in ("gtest", "gtest_command", "gtest_json")),
            "share/man/man1/verbena.1", "share/man/man1/verbenad.1", "share/verbena/tsan.supp",
            "share/bash-completion/completions/verbena",
            *(f"share/verbena/{name}.schema.json" for name in ("commands", "events", "run", "status", "test")),
            *(f"share/verbena/ci/{name}.sh" for name in ("annotate", "export", "setup")),
            f"share/verbena/verbena_pytest-{wheel.version()}-py3-none-any.whl",
            "share/zsh/site-functions/_verbena", "share/fish/vendor_completions.d/verbena.fish"})

    def test_the_rpm_names_all_that_is_shared(self):
        spec = (HERE.parents[2] / "packaging/rpm/verbena.spec").read_text(encoding="utf-8").partition("%files")[2]
        named = [word.removesuffix(".gz") for word in spec.split() if word.startswith("/usr/")]
        for path in self.prefix.rglob("*"):
            name = "/usr/" + str(path.relative_to(self.prefix))
            if not path.is_dir() and name.startswith(("/usr/include/", "/usr/share/")):
                self.assertTrue(any(name == entry or name.startswith(entry + "/") for entry in named), name)

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
        """In /etc/libibverbs.d the file replaces RDMAV_DRIVERS, like any provider's driver file."""
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

    def project(self, text):
        """Configures a project of these lines, as a user who has installed Verbena does."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.device.folder))
        folder.chmod(0o777)
        (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(stranger NONE)\n" + text)
        done = self.shell(f"cd {folder} && cmake -B build -DCMAKE_PREFIX_PATH={self.prefix}")
        return folder / "build", done

    def test_find_package(self):
        build, done = self.project("""
            find_package(Verbena 0.1 REQUIRED)
            enable_testing()
            add_test(NAME devices COMMAND Verbena::verbena run -- ibv_devices)
            add_test(NAME by_hand COMMAND ibv_devinfo)
            set_tests_properties(by_hand PROPERTIES PASS_REGULAR_EXPRESSION PORT_ACTIVE
              ENVIRONMENT "LD_PRELOAD=${Verbena_PRELOAD_LIBRARY};RDMAV_DRIVERS=${Verbena_DRIVER}")""")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.shell(f"ctest --test-dir {build} -V")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("verbena0", done.stdout)
        self.assertIn("100% tests passed", done.stdout)
        _, done = self.project("find_package(Verbena 9.1 REQUIRED)")
        self.assertIn('compatible with requested version "9.1"', " ".join(done.stderr.split()))

    def test_pkg_config(self):
        folder = f"PKG_CONFIG_PATH={self.prefix}/share/pkgconfig"
        version = self.device.control("version").stdout.split()[1]
        self.assertEqual(self.shell(f"{folder} pkg-config --modversion verbena").stdout.strip(), version)
        done = self.shell(f"for name in verbena preload driver; do {folder} pkg-config --variable=$name verbena; done")
        program, preload, driver = done.stdout.split()
        self.assertTrue(os.access(program, os.X_OK), program)
        done = self.shell(f"LD_PRELOAD={preload} RDMAV_DRIVERS={driver} ibv_devinfo")
        self.assertIn("PORT_ACTIVE", done.stdout, done.stderr)

    def test_systemd_unit(self):
        """The command that systemd would start keeps running, serves, and ends well when it is told to."""
        unit = (self.prefix / "lib/systemd/user/verbena.service").read_text()
        command = re.search("^ExecStart=(.*)$", unit, re.MULTILINE)[1]
        self.assertEqual(command, f'"{self.prefix}/bin/verbena" up --foreground')
        self.device.control("down")
        daemon = subprocess.Popen([*NOBODY, *shlex.split(command), "--fabric", self.device.fabric], stderr=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, env=self.device.environment)
        end = time.monotonic() + LIMIT
        while self.device.control("status").returncode != 0 and daemon.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        self.assertIn("PORT_ACTIVE", self.device.run(["ibv_devinfo"]).stdout)
        daemon.terminate()
        self.assertEqual(daemon.wait(LIMIT), 0)

    def test_systemd_unit_of_an_odd_prefix(self):
        """systemd reads the prefix as one word, without a specifier."""
        prefix = pathlib.Path(self.folder, "my %tools")
        subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, capture_output=True, timeout=LIMIT)
        unit = (prefix / "lib/systemd/user/verbena.service").read_text()
        self.assertIn(f'\nExecStart="{self.folder}/my %%tools/bin/verbena" up --foreground\n', unit)

    def test_stripped(self):
        """What `cmake --install --strip` installs has a twentieth of the size, and it works."""
        prefix = pathlib.Path(self.folder, "stripped")
        subprocess.run(["cmake", "--install", BUILD, "--strip", "--prefix", prefix], check=True, capture_output=True,
                       timeout=LIMIT)
        sizes = [sum(path.stat().st_size for path in folder.rglob("*") if not path.is_symlink())
                 for folder in (self.prefix, prefix)]
        self.assertLess(sizes[1] * 5, sizes[0])
        with Emulator(prefix) as device:
            self.assertIn("PORT_ACTIVE", device.run(["ibv_devinfo"]).stdout)

    def test_no_younger_c_library_is_needed(self):
        """The package is made for the C library of Debian 11, 2.31. What the compiler's libraries need of later
        versions comes with the package. Symbols that only moved to another library are in 2.31 as well."""
        brought = {"__libc_single_threaded", "arc4random", "_dl_find_object"}
        for file in (*self.prefix.glob("bin/verbena*"), *self.prefix.glob("lib/**/libverbena-*.so")):
            if file.is_symlink():
                continue
            listed = subprocess.run(["objdump", "-T", file], text=True, capture_output=True, check=True, timeout=LIMIT).stdout
            for minor, name in re.findall(r"\(GLIBC_2\.(\d+)\)\s+(\w+)", listed):
                moved = int(minor) in (33, 34) or name.startswith("pthread_")
                self.assertTrue(int(minor) <= 31 or moved or name in brought, f"{file}: {name} is of 2.{minor}")

    def test_two_installations(self):
        """A program that sees the device of one installation does not get the libraries of the other."""
        other = pathlib.Path(self.folder, "other")
        subprocess.run(["cmake", "--install", BUILD, "--prefix", other], check=True, capture_output=True, timeout=LIMIT)
        done = self.shell('eval "$("$1" env)"; LD_PRELOAD="$LD_PRELOAD:/else/where.so" '
                          f'{other}/bin/verbena env')
        self.assertEqual(done.returncode, 0, done.stderr)
        preload = next(other.glob("lib/**/libverbena-preload.so"))
        self.assertIn(f"LD_PRELOAD='{preload}:/else/where.so'", done.stdout)
        self.assertIn(f"RDMAV_DRIVERS='{preload.parent}/libverbena'", done.stdout)
        script = shutil.copy(HERE / "own_libraries.py", self.folder)
        # Whatever separates the names, a verbs program has only the libraries of this installation.
        done = self.shell('eval "$("$1" env)"; LD_PRELOAD="libm.so.6 $LD_PRELOAD" RDMAV_DRIVERS="verbena;$RDMAV_DRIVERS" '
                          f"exec {other}/bin/verbena run -- /usr/bin/python3 {script}")
        self.assertEqual(done.returncode, 0, done.stderr)
        device, *libraries = done.stdout.splitlines()
        self.assertEqual(device, "verbena0", done.stderr)
        self.assertEqual({str(pathlib.Path(path).parent) for path in libraries}, {str(preload.parent)})
        self.assertEqual(len(libraries), 2, libraries)

    def test_an_emulator_in_a_shell_that_sees_devices(self):
        """The emulator itself does not load the preload library."""
        self.device.control("down")
        words = ["sh", "-c", 'eval "$("$1" env)"; exec "$1" up --foreground --fabric "$2"', "sh", self.device.verbena,
                 self.device.fabric]
        with subprocess.Popen([*NOBODY, *words], env=self.device.environment, stderr=subprocess.PIPE) as daemon:
            end = time.monotonic() + LIMIT
            while self.device.control("status").returncode != 0:
                self.assertLess(time.monotonic(), end, "no emulator")
            maps = pathlib.Path(f"/proc/{daemon.pid}/maps").read_text()
            self.device.control("down")
            daemon.communicate(timeout=LIMIT)
        self.assertNotIn("libverbena-preload", maps)

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
        """With DESTDIR, as packagers use it, the paths in the files are those of the final place."""
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
