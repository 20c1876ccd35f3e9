# SPDX-License-Identifier: BSD-2-Clause
"""`verbena doctor`, and what `verbena run` says of a program that cannot see the device. Each fault has a test."""

import os
import re
import shutil
import socket
import subprocess
import unittest

from emulator_case import EmulatorCase

NOBODY = 65534


class DoctorCase(EmulatorCase):
    def setUp(self):
        super().setUp()
        for number in (25, 33, 34, 57, 59, 64, 65):
            shutil.copy(self.home + "/lib/libverbena-preload.so", f"{self.home}/lib/libverbena-rdmav{number}.so")

    def doctor(self, *words, before=(), **variables):
        words = [*before, self.home + "/bin/verbena", "doctor", *(words or ("--fabric", self.fabric))]
        return subprocess.run(words, env=dict(self.env, **variables), text=True, capture_output=True, timeout=60,
                              check=False)


class Doctor(DoctorCase):
    def finds(self, fault, remedy, **keywords):
        """Asserts that `verbena doctor` finds exactly this fault, with its remedy below."""
        done = self.doctor(**keywords)
        self.assertEqual(done.returncode, 1, done.stdout)
        lines = done.stdout.splitlines()
        faults = [number for number, line in enumerate(lines) if line.startswith("FAULT  ")]
        self.assertEqual(len(faults), 1, done.stdout)
        self.assertIn(fault, lines[faults[0]])
        self.assertIn(remedy, lines[faults[0] + 1])
        self.assertEqual(lines[-1], "1 fault(s)")

    def test_all_in_place(self):
        for running in (False, True):
            done = self.doctor()
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertTrue(done.stdout.endswith("all in place\n"))
            self.assertIn("under `verbena run`", done.stdout)
            if not running:
                self.assertIn("an emulator with these settings starts and ends", done.stdout)
                self.assertIsNone(self.daemon_pid(), "it was another one")
                self.up()
        self.assertRegex(done.stdout, r"emulator \S+ runs, pid \d+, 1 device")

    def test_the_emulator_is_tried_where_it_would_run(self):
        """Not in /tmp, which may be full, or not to be written to, or another file system."""
        os.rename(self.home + "/bin/verbenad", self.home + "/bin/verbenad-itself")
        with open(self.home + "/bin/verbenad", "w", encoding="utf-8") as daemon:
            daemon.write('#!/bin/sh\necho "$@" >>"$0-words"\nexec "$0-itself" "$@"\n')
        os.chmod(self.home + "/bin/verbenad", 0o755)
        done = self.doctor()
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(self.home + "/bin/verbenad-words", encoding="utf-8") as words:
            self.assertEqual(re.findall(r"--runtime-dir (\S+)/", words.read()), [self.dir])
        self.assertEqual([name for name in os.listdir(self.dir) if name.startswith("private-")], [])

    def test_missing_parts(self):
        for part in ("bin/verbenad", "lib/libverbena-preload.so"):
            path = f"{self.home}/{part}"
            os.rename(path, path + ".away")
            self.finds(f"{path} is missing", "install Verbena again")
            os.rename(path + ".away", path)

    def test_a_place_that_the_loader_cannot_be_told_of(self):
        """LD_PRELOAD and RDMAV_DRIVERS cannot hold its path: a link in the runtime directory stands for it."""
        whole = place = self.home
        try:
            for name in ("a b", "a;b"):
                self.home = f"{whole}/{name}"
                os.mkdir(self.home)
                for part in ("bin", "lib"):
                    os.rename(f"{place}/{part}", f"{self.home}/{part}")
                place = self.home
                done = self.doctor()
                self.assertEqual(done.returncode, 0, done.stdout)
                shown = subprocess.run([self.home + "/bin/verbena", "env"], env=self.env, text=True, capture_output=True,
                                       timeout=60, check=True).stdout
                preload = re.search("LD_PRELOAD='(.*)'", shown)[1]
                self.assertNotRegex(preload, "[ ;:]")
                self.assertTrue(os.path.samefile(preload, self.home + "/lib/libverbena-preload.so"))
                exported = dict(re.findall("^export (\\w+)='(.*)'$", shown, re.MULTILINE))
                self.assertIn("programs of this shell see the device", self.doctor(**exported).stdout)
            self.finds(f"the path {self.home}/lib and the runtime directory {self.home}/run hold a blank",
                       "install Verbena elsewhere", VERBENA_RUNTIME_DIR=self.home + "/run")
        finally:
            self.home = whole

    def test_an_emulator_that_does_not_start(self):
        with open(self.home + "/bin/verbenad", "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho 'verbenad: error while loading shared libraries' >&2\nexit 127\n")
        self.finds("the emulator cannot be started: verbenad: error while loading shared libraries", "try again")
        with open(self.home + "/bin/verbenad", "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nkill -9 $$\n")
        self.finds("ended while it started, without a word; try: verbena up --foreground", "try again")

    def test_missing_plugin(self):
        for name in os.listdir(self.home + "/lib"):
            if "rdmav" in name:
                os.remove(f"{self.home}/lib/{name}")
        self.finds(".so is missing", "install Verbena again")

    def test_parts_that_one_may_not_read(self):
        """Root can read everything, so the doctor runs as nobody."""
        before = ()
        if os.geteuid() == 0:
            before = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            os.chmod(self.home, 0o777)
        for part, verb, mode in (("bin/verbenad", "run", 0o644), ("lib/libverbena-preload.so", "read", 0)):
            path = f"{self.home}/{part}"
            os.chmod(path, mode)
            self.finds(f"you may not {verb} {path}", "chmod a+rX", before=before)
            os.chmod(path, 0o755)

    def test_no_libibverbs(self):
        with open(self.home + "/libibverbs.so.1", "w", encoding="ascii") as file:
            file.write("nothing")
        self.finds("libibverbs cannot be loaded", "apt install libibverbs1", LD_LIBRARY_PATH=self.home)

    def test_unknown_libibverbs(self):
        shutil.copy(self.home + "/lib/libverbena-preload.so", self.home + "/libibverbs.so.1")
        self.finds("provider interface that this version does not know", "newer Verbena", LD_LIBRARY_PATH=self.home)

    def test_port_taken(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
            holder.bind((self.address, 4791))
            self.finds(f"UDP port 4791 of {self.address} is taken", "--fabric and --roce")
        self.assertEqual(self.doctor().returncode, 0)

    def test_runtime_directory(self):
        os.mkdir(self.dir)
        os.chmod(self.dir, 0o755)
        self.finds("is open to other users; run: chmod 700", "try again")
        os.rmdir(self.dir)
        with open(self.dir, "w", encoding="ascii"):
            self.finds("is not a directory", "try again")

    def test_settings(self):
        path = self.home + "/my.toml"
        with open(path, "w", encoding="ascii") as file:
            file.write("fabric = 7\n")
        done = self.doctor("--config", path)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"FAULT  .*my\.toml:1.*\n       correct the settings")

    def test_shell_that_is_half_set_up(self):
        preload = self.home + "/lib/libverbena-preload.so"
        driver = self.home + "/lib/libverbena"
        remedy = 'eval "$(verbena env)"'
        self.finds("RDMAV_DRIVERS does not name its driver", remedy, LD_PRELOAD=preload)
        self.finds("RDMAV_DRIVERS names /old/libverbena, but there is no /old/libverbena-rdmav", remedy,
                   RDMAV_DRIVERS="rxe:/old/libverbena")
        self.finds("IBV_DRIVERS names verbena, but there is no", remedy, IBV_DRIVERS="verbena")
        self.finds("LD_PRELOAD names /old/libverbena-preload.so, which is not there", remedy,
                   LD_PRELOAD="/old/libverbena-preload.so", RDMAV_DRIVERS=driver)
        done = self.doctor(LD_PRELOAD=preload, RDMAV_DRIVERS=driver)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("programs of this shell see the device", done.stdout)

    def test_variables_of_our_own(self):
        self.finds("VERBENA_LINK=mail is none of udp, shm and auto", "unset it", VERBENA_LINK="mail")
        self.finds("VERBENA_ENGINES=9 is no number from 1 to 8", "unset it", VERBENA_ENGINES="9")
        self.finds("VERBENA_LOG=EXPLAIN is neither explain nor explain-all", "unset it", VERBENA_LOG="EXPLAIN")
        done = self.doctor(VERBENA_RUNTIME_DIR="run", XDG_RUNTIME_DIR=self.home)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, "VERBENA_RUNTIME_DIR=run is no absolute path\n.*begin it with a slash, or unset it\n")

    def test_verbs_that_fail_on_purpose(self):
        """A user wants these failures, so they are no fault."""
        done = self.doctor(VERBENA_FAIL="ibv_reg_mr=ENOMEM@3,ibv_create_qp=EIO")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^hint   VERBENA_FAIL=ibv_reg_mr=ENOMEM@3,ibv_create_qp=EIO: .*"
                                      r"on purpose.*\n       .*unset VERBENA_FAIL$")
        self.assertNotIn("VERBENA_FAIL", self.doctor(VERBENA_FAIL="").stdout)


PRINTS_PRELOAD = """
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  const char* list = getenv("LD_PRELOAD");
  fputs(list ? list : "none", stdout);
  return 0;
}
"""


class UnfitPrograms(EmulatorCase):
    """Such programs run as anywhere else, and one line tells why they see no device."""

    def compile(self, *options, text="int main(void) { return 3; }\n", compiler="cc"):
        path = self.home + "/program"
        subprocess.run([compiler, "-x", "c", "-", "-o", path, *options], input=text, text=True, check=True)
        return path

    def run_in(self, *words):
        return self.verbena("run", "--fabric", self.fabric, *words)

    def test_static(self):
        program = self.compile("-static")
        done = self.run_in("--", program)
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, f"^verbena: {program} is statically linked: [^\n]*\n$")
        self.assertEqual(self.run_in("--quiet", "--", program).stderr, "")

    def test_musl(self):
        """The loader is the C library's own, under a name of musl's loader. That of musl would end the program."""
        loader = self.home + "/ld-musl-test.so.1"
        os.symlink(self.loader_of("/bin/true"), loader)
        program = self.compile(f"-Wl,--dynamic-linker={loader}", text=PRINTS_PRELOAD)
        script = self.script(f"#! {program} -x\n")
        said = f"verbena: {program} is linked to musl; [^\n]*\n"
        ordinary = ["--fabric", self.fabric, "--"]
        for words in ([*ordinary, program], [*ordinary, script], ["--private", "--", program]):
            with self.subTest(words):
                done = self.verbena("run", *words)
                self.assertEqual((done.returncode, done.stdout), (0, "none"))
                self.assertRegex(done.stderr, f"^{said}$")
        done = self.run_in("--quiet", "--", program)
        self.assertEqual((done.stdout, done.stderr), ("none", ""))
        self.env["LD_PRELOAD"] = "libm.so.6"  # the user's own stays
        self.assertEqual(self.run_in("--", program).stdout, "libm.so.6")

    def test_program_of_musl_itself(self):
        program = self.compile(compiler="musl-gcc")
        done = self.run_in("--", program)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("is linked to musl", done.stderr)

    @staticmethod
    def loader_of(program):
        headers = subprocess.run(["readelf", "-lW", program], text=True, capture_output=True, check=True).stdout
        return re.search(r"interpreter: (\S+)\]", headers)[1]

    def script(self, text):
        path = self.home + "/script"
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def test_set_user_id(self):
        program = self.compile()
        if os.geteuid() == 0:
            os.chown(program, NOBODY, NOBODY)
            os.chmod(program, 0o4755)
        else:
            program = shutil.which("su")
        done = self.run_in("--", program, "--version")
        self.assertIn(f"verbena: {program} runs with more rights than you have", done.stderr)

    def test_another_processor(self):
        program = self.compile()
        with open(program, "r+b") as file:
            file.seek(4)
            file.write(b"\x01")  # ELFCLASS32
        self.assertIn("for another kind of processor", self.run_in("--", program).stderr)

    def test_what_cannot_be_read_is_not_judged(self):
        self.up()
        for most in range(4, 9):
            script = f"ulimit -n {most}; exec {self.home}/bin/verbena run -- /bin/true"
            done = subprocess.run(["sh", "-c", script], env=self.env, text=True, capture_output=True, timeout=60,
                                  check=False)
            self.assertNotIn("another kind of processor", done.stderr)

    def test_nothing_is_said_of_others(self):
        for program in (self.compile(), self.script("#!/bin/sh\nexit 3\n")):
            done = self.run_in("--", program)
            self.assertEqual((done.returncode, done.stderr), (3, ""))
