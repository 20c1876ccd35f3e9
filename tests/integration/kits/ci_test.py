#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The GitHub action and the GitLab template: their scripts run unchanged, in folders and files like those of a runner.

    ci_test.py PREFIX
"""

import hashlib
import json
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

from kit_case import LIMIT, ROOT, KitCase

CI = ROOT / "kits/ci"
PREFIX = None
# As in kits/ci/README.md, but for the network.
PYTEST = """
    python3 -m venv --system-site-packages --without-pip venv
    python3 -m pip -q --python venv/bin/python install --no-deps --no-index \\
      "$(dirname "$(command -v verbena)")"/../share/verbena/verbena_pytest-*.whl
    venv/bin/python -m pytest -p no:cacheprovider test_it.py
    """


class Case(KitCase):
    @classmethod
    def setUpClass(cls):
        """Makes a tarball and a .deb in the form of scripts/package."""
        cls.top = tempfile.TemporaryDirectory(prefix="verbena-kits-ci-")
        cls.package = pathlib.Path(cls.top.name, "verbena-0-linux.tar.gz")
        subprocess.run(["tar", "-czf", cls.package, "--transform", "s,^[^/]*,verbena-0-linux,SH", pathlib.Path(PREFIX).name],
                       cwd=pathlib.Path(PREFIX).parent, check=True)
        cls.deb = pathlib.Path(cls.top.name, "with a blank_0_all.deb")
        tree = pathlib.Path(cls.top.name, "tree")
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text("Package: verbena\nVersion: 0\nArchitecture: all\nMaintainer: x <x@y>\n"
                                             "Description: x\n")
        shutil.copytree(PREFIX, tree / "usr", symlinks=True)
        subprocess.run(["dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "--build", tree, cls.deb], check=True,
                       stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.top.cleanup()

    def setUp(self):
        super().setUp()
        self.prefix = self.folder / "runner/verbena"
        self.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": str(self.folder),
                            "VERBENA_RUNTIME_DIR": str(self.outer / "run")}
        self.addCleanup(self.shell, f"'{PREFIX}/bin/verbena' down")

    def shell(self, text, **variables):
        return subprocess.run(["bash", "-eo", "pipefail", "-c", text], cwd=self.folder, text=True, capture_output=True,
                              env={**self.environment, **variables}, timeout=LIMIT, check=False)

    def run_script(self, name, *words, **variables):
        return subprocess.run([CI / name, *words], cwd=self.folder, text=True, capture_output=True,
                              env={**self.environment, **variables}, timeout=LIMIT, check=False)

    def kept(self, name, explained, **run):
        folder = self.folder / "verbena-artifacts" / name
        folder.mkdir(parents=True)
        (folder / ("test.json" if "test" in run else "run.json")).write_text(json.dumps(run, indent=1))
        (folder / "explain.log").write_text(explained)


class Scripts(Case):
    def setup_fails(self, code, text, *words):
        done = self.run_script("setup.sh", *words)
        self.assertEqual((done.returncode, done.stderr), (code, f"setup.sh: {text}\n"))
        self.assertFalse(self.prefix.exists())

    def test_setup(self):
        done = self.run_script("setup.sh", "--prefix", self.prefix, "--package", self.package)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^verbena \d+\.\d+\.\d+\n$")
        before = self.package.rename(self.package.with_suffix(".away"))
        self.addCleanup(before.rename, self.package)
        # setup.sh takes what a cache has brought, and fetches nothing.
        done = self.run_script("setup.sh", "--prefix", self.prefix, "--package", self.package)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_setup_in_a_folder_that_has_another(self):
        """It gives nobody another package than the one that is asked for."""
        def setup(*words):
            done = self.run_script("setup.sh", "--prefix", self.prefix, *words)
            return done.returncode, done.stderr
        sums = {name: hashlib.sha256(name.read_bytes()).hexdigest() for name in (self.package, self.deb)}
        self.assertEqual(setup("--package", self.package), (0, ""))
        there = f"setup.sh: {self.prefix} has Verbena from {self.package} already, "
        self.assertEqual(setup("--package", self.deb), (1, f"{there}and not from {self.deb}: remove it first\n"))
        self.assertEqual(setup("--package", self.package, "--sha256", sums[self.deb]),
                         (1, f"{there}with another SHA-256 sum than {sums[self.deb]}: remove it first\n"))
        self.assertEqual(setup("--source", "/etc"), (1, f"{there}and not from a clone: remove it first\n"))
        # A mirror may have another name.
        self.assertEqual(setup("--package", "/a/mirror", "--sha256", sums[self.package]), (0, ""))
        shutil.rmtree(self.prefix)
        self.assertEqual(setup("--package", self.deb), (0, ""))
        self.assertEqual(setup("--package", self.deb, "--sha256", sums[self.deb]), (0, ""))
        (self.prefix / "share/verbena/ci/package").unlink()
        self.assertEqual(setup("--package", self.deb),
                         (1, f"setup.sh: {self.prefix} has Verbena already, and not from a package: remove it first\n"))

    def test_setup_with_the_deb(self):
        """It is unpacked as an ordinary user, and has the same in the same places."""
        done = self.run_script("setup.sh", "--prefix", self.prefix, "--package", self.deb)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(next(self.prefix.glob("share/verbena/verbena_pytest-*.whl")))
        bare = self.folder / "bare"
        bare.mkdir()
        for name in ("bash", "cat", "cp", "head", "mktemp", "rm"):
            (bare / name).symlink_to(shutil.which(name))
        done = self.run_script("setup.sh", "--prefix", self.folder / "other", "--package", self.deb, PATH=str(bare))
        self.assertEqual((done.returncode, done.stderr),
                         (1, f"setup.sh: there is no dpkg-deb here for {self.deb}: take the portable tarball\n"))

    def test_setup_checks_the_sum(self):
        to = ("--prefix", self.prefix, "--package", f"file://{self.package}", "--sha256")
        self.setup_fails(1, f"file://{self.package} has another SHA-256 sum than {'0' * 64}", *to, "0" * 64)
        done = self.run_script("setup.sh", *to, hashlib.sha256(self.package.read_bytes()).hexdigest())
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_setup_says_what_is_wrong(self):
        to = ("--prefix", str(self.prefix))
        other = self.folder / "other.tar.gz"
        subprocess.run(["tar", "-czf", other, "-C", "/etc", "hostname"], check=True)
        self.setup_fails(1, f"{other} is neither Verbena's portable tarball nor its .deb", *to, "--package", other)
        self.setup_fails(1, "there is no package /no/such/file", *to, "--package", "/no/such/file")
        self.setup_fails(1, "/etc is no clone of Verbena", *to, "--source", "/etc")
        self.setup_fails(2, "give --package or --source", *to)
        self.setup_fails(2, "--prefix is missing", "--package", "x")
        self.setup_fails(2, "do not know '--what'; see setup.sh --help", "--what")
        done = self.run_script("setup.sh", *to, "--package", "file:///no/such/file")
        self.assertEqual(done.returncode, 1)
        self.assertIn("setup.sh: cannot fetch file:///no/such/file\n", done.stderr)

    def test_setup_compiles_a_clone(self):
        """setup.sh takes the steps of a build; the clone here has little to compile."""
        clone = self.folder / "clone"
        (clone / "scripts").mkdir(parents=True)
        (clone / "scripts/deps").write_text('#!/bin/sh\ntest "$*" = build\n')
        (clone / "scripts/deps").chmod(0o755)
        (clone / "verbena.sh").write_text("#!/bin/sh\necho verbena 0.0.7\n")
        (clone / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(clone NONE)\n"
            "install(PROGRAMS verbena.sh DESTINATION bin RENAME verbena)\n")
        done = self.run_script("setup.sh", "--prefix", self.prefix, "--source", clone)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.endswith("\nverbena 0.0.7\n"), done.stdout)
        # It may be one that nobody can write to.
        self.assertEqual({str(path.relative_to(clone)) for path in clone.rglob("*")},
                         {"CMakeLists.txt", "scripts", "scripts/deps", "verbena.sh"})

    def test_export_for_a_shell(self):
        done = self.shell(f'eval "$("{CI}/export.sh" --prefix "{PREFIX}")"; command -v verbena; echo "$CMAKE_PREFIX_PATH"',
                          CMAKE_PREFIX_PATH="/opt/x")
        self.assertEqual(done.stdout, f"{PREFIX}/bin/verbena\n{PREFIX}:/opt/x\n", done.stderr)
        done = self.shell(f'eval "$("{CI}/export.sh" --prefix "{PREFIX}" --device)"; ibv_devices; verbena down')
        self.assertIn("verbena0", done.stdout, done.stderr)

    def test_export_says_what_is_wrong(self):
        for words, code, text in ((["--prefix", "/etc"], 1, "there is no /etc/bin/verbena"), ([], 2, "--prefix is missing"),
                                  (["--what"], 2, "do not know '--what'; see export.sh --help")):
            done = self.run_script("export.sh", *words)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (code, "", f"export.sh: {text}\n"))

    def test_annotations(self):
        self.kept("a", "verbena: p[1]: ibv_reg_mr: 50% refused\nverbena: p[1]: second\n",
                  test='tests/test_a.py::test_it[a "b", c:d]', file="tests/test,a.py", line=12,
                  programs=[{"command": "other", "line": 99}])
        self.kept("b", "", command=["run", "--", "./server"], exit_code=124, repeat="verbena run -- ./server")
        self.kept("c", "verbena: all was well\n", command="./server", exit_code=0)
        done = self.run_script("annotate.sh", "verbena-artifacts", "no-such-folder", GITHUB_ACTIONS="true")
        self.assertEqual(done.stdout.splitlines(), [
            '::error file=tests/test%2Ca.py,line=12,title=tests/test_a.py%3A%3Atest_it[a "b"%2C c%3Ad]'
            "::verbena: p[1]: ibv_reg_mr: 50%25 refused%0Averbena: p[1]: second",
            "::error title=verbena run -- ./server::it failed, and nothing that was kept says why; see verbena-artifacts/b"],
            done.stderr)
        done = self.run_script("annotate.sh", "verbena-artifacts")
        self.assertEqual(done.stdout.splitlines()[:2], ["tests/test,a.py:12: verbena: p[1]: ibv_reg_mr: 50% refused",
                                                        "tests/test,a.py:12: verbena: p[1]: second"])
        self.assertEqual(self.run_script("annotate.sh").returncode, 2)

    def annotations_of(self, *words, **variables):
        """Runs `verbena run --artifacts` with these words, and returns the lines of annotate.sh on it."""
        shutil.rmtree(self.folder / "kept", ignore_errors=True)
        subprocess.run([f"{PREFIX}/bin/verbena", "run", "--private", "--artifacts", "kept", *words], cwd=self.folder,
                       env={**self.environment, **variables}, capture_output=True, timeout=LIMIT, check=False)
        done = self.run_script("annotate.sh", "kept")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_annotations_of_what_only_the_events_tell(self):
        """The programs print no explanation, or print it elsewhere; what explain.log has is there once."""
        no_answer = (r"^kept: verbena: ibv_rc_pingpong\[\d+\]: RC queue pair 0x\w+: no answer from the peer \(QPN 0x\w+ at "
                     r"[\d.]+\) to PSN ")
        for words, redirected in ((["--quiet"], ""), ([], " 2>errors"), ([], "")):
            said = self.annotations_of(*words, "--inject", "drop opcode=SEND attempt=any", "--pair", "ibv_rc_pingpong -n 3 -r 100",
                                       f"ibv_rc_pingpong -n 3 localhost{redirected}")
            self.assertEqual(sum(re.search(no_answer, line) is not None for line in said), 1, said)

    def test_annotations_name_a_rule_that_never_fired(self):
        rule = 'drop opcode=WRITE nth=1 program="x'
        for words, program, more in (([], "exit 7", ""), (["--require-fired"], "true", ", of 0 that it names"),
                                     (["--require-fired", "--quiet"], "exit 7", ", of 0 that it names")):
            said = self.annotations_of(*words, "--inject", rule, "--", "sh", "-c", program)
            self.assertEqual(said, [f"kept: verbena: the rule '{rule}' never fired{more}"])

    def test_annotations_of_odd_folders(self):
        for name in ("a|b", "c&d", "e\\f"):
            self.kept(name, f"verbena: p[1]: {name}\n", command=["run", "--", "x"], exit_code=1, repeat="verbena run -- x")
        done = self.run_script("annotate.sh", "verbena-artifacts")
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())),
                         (0, [f"verbena-artifacts/{name}: verbena: p[1]: {name}" for name in ("a|b", "c&d", "e\\f")]))


class Job(Case):
    """Runs the steps of action.yml that are scripts, as GitHub runs them. Actions of other projects are left out."""

    def setUp(self):
        super().setUp()
        self.action = yaml.safe_load((ROOT / "action.yml").read_text())
        # GitHub fetches an action to a folder of its own.
        self.at = self.folder / "actions/verbena"
        shutil.copytree(CI, self.at / "kits/ci")
        for path in (self.at, *self.at.rglob("*")):
            path.chmod(path.stat().st_mode & ~0o222)  # it is not written to
        self.outputs = {}
        self.given = {"cache": [], "upload": []}  # what each use of these actions got
        for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT"):
            (self.folder / name).touch()
            self.environment[name] = str(self.folder / name)
        self.environment.update(GITHUB_ACTION_PATH=str(self.at), GITHUB_ACTIONS="true")

    def valued(self, text, inputs):
        values = {f"inputs.{name}": value for name, value in inputs.items()} | self.outputs | {
            "runner.temp": str(self.folder / "runner"), "github.job": "test", "strategy.job-index": "0"}
        for name, value in values.items():
            text = text.replace(f"${{{{ {name} }}}}", value)
        self.assertNotIn("${{", text)
        return text

    def wanted(self, condition, inputs, failed):
        """Evaluates `if:` as far as action.yml uses it: == and != of an input, failure(), && and ||."""
        if "failure()" not in condition and failed:
            return False
        python = condition.replace("||", "or").replace("&&", "and").replace("failure()", str(failed))
        for name, value in inputs.items():
            python = python.replace(f"inputs.{name}", repr(value))
        return eval(python, {"__builtins__": {}})

    def use(self, failed=False, **given):
        """Returns the output of the steps, the names of those that ran, and whether one failed."""
        known = {name: value["default"] for name, value in self.action["inputs"].items()}
        self.assertLessEqual(given.keys(), known.keys())
        inputs = {**known, **given}
        said, ran = "", []
        for step in self.action["runs"]["steps"]:
            if not self.wanted(step.get("if", "True"), inputs, failed):
                continue
            ran.append(step["id"])
            if "run" not in step:
                self.assertRegex(step["uses"], r"^actions/(cache|upload-artifact)@v4$")
                self.given[step["id"]].append({name: self.valued(str(value), inputs)
                                               for name, value in step["with"].items()})
                continue
            (self.folder / "GITHUB_OUTPUT").write_text("")
            self.assertEqual(step["shell"], "bash")
            variables = {name: self.valued(value, inputs) for name, value in step.get("env", {}).items()}
            done = self.shell(step["run"], **variables, **self.exported())
            said += done.stdout + done.stderr
            failed = failed or done.returncode != 0
            for line in (self.folder / "GITHUB_OUTPUT").read_text().splitlines():
                name, value = line.split("=", 1)
                self.outputs[f"steps.{step['id']}.outputs.{name}"] = value
        return said, ran, failed

    def exported(self):
        lines = (self.folder / "GITHUB_ENV").read_text().splitlines()
        paths = (self.folder / "GITHUB_PATH").read_text().splitlines()
        return {**dict(line.split("=", 1) for line in lines), "PATH": ":".join([*reversed(paths), self.environment["PATH"]])}

    def test_later_steps_have_the_command(self):
        said, ran, failed = self.use(package=str(self.package))
        self.assertEqual((ran, failed), (["setup"], False), said)
        done = self.shell("command -v verbena", **self.exported())
        self.assertEqual(done.stdout, f"{self.prefix}/bin/verbena\n")
        self.assertEqual(self.exported()["CMAKE_PREFIX_PATH"], str(self.prefix))

    def test_later_steps_see_the_device(self):
        said, _, failed = self.use(package=str(self.package), device="true")
        self.assertFalse(failed, said)
        done = self.shell("ibv_devices", **self.exported())
        self.assertIn("verbena0", done.stdout, done.stderr)

    def test_the_deb(self):
        """All that is done with the tarball."""
        said, ran, failed = self.use(package=str(self.deb), sha256=hashlib.sha256(self.deb.read_bytes()).hexdigest(),
                                     device="true", run="ibv_devices\nverbena run --private -- ibv_devinfo -d verbena0\n")
        self.assertEqual((ran, failed), (["setup", "run"], False), said)
        self.assertRegex(said, r"verbena0\s+0256")
        self.assertIn("PORT_ACTIVE", said)
        (self.folder / "test_it.py").write_text("def test_it(verbena):\n    verbena.run('ibv_devices; exit 3')\n")
        said, ran, failed = self.use(package=str(self.deb), run=PYTEST)
        self.assertEqual((ran, failed), (["setup", "run", "annotate", "upload"], True), said)
        self.assertRegex(said, "::error file=test_it.py,line=1,title=test_it.py%3A%3Atest_it::")

    def test_commands_that_pass(self):
        said, ran, failed = self.use(package=str(self.package), run="verbena version\nverbena run -- ibv_devices\n")
        self.assertEqual((ran, failed), (["setup", "run"], False), said)
        self.assertIn("verbena0", said)

    def test_commands_that_fail(self):
        self.kept("it", "verbena: p[1]: refused\n", test="test_it", file="test_a.py", line=3)
        said, ran, failed = self.use(package=str(self.package), run="false\necho not any more\n")
        self.assertEqual((ran, failed), (["setup", "run", "annotate", "upload"], True), said)
        self.assertIn("::error file=test_a.py,line=3,title=test_it::verbena: p[1]: refused\n", said)
        self.assertNotIn("not any more", said)

    def test_a_report_of_earlier_steps(self):
        self.kept("it", "verbena: p[1]: refused\n", test="test_it", file="test_a.py", line=3)
        said, ran, _ = self.use(failed=True, report="true")
        self.assertEqual(ran, ["annotate", "upload"])
        self.assertIn("::error file=test_a.py,line=3,", said)

    def test_each_upload_has_a_name_of_its_own(self):
        self.use(package=str(self.package), run="false\n")
        self.use(failed=True, report="true")
        names = {given["name"] for given in self.given["upload"]}
        self.assertEqual(len(names), 2)
        for name in names:
            self.assertRegex(name, r"^verbena-test-0-\d{6}-\d+$")

    def test_a_package_that_is_not_there(self):
        said, ran, failed = self.use(package="/no/such/package", run="echo not reached")
        self.assertEqual((ran, failed), (["setup", "annotate", "upload"], True))
        self.assertEqual(said, "setup.sh: there is no package /no/such/package\n")

    def test_without_a_package_it_is_compiled_and_cached(self):
        said, ran, failed = self.use()
        self.assertEqual((ran[:3], failed), (["key", "cache", "setup"], True))
        self.assertEqual(said, f"setup.sh: {self.at} is no clone of Verbena\n")  # the folder has only a part of a clone
        self.assertEqual(self.given["cache"][0]["path"], str(self.prefix))

    def test_a_cache_is_for_these_sources_and_this_release(self):
        def key():
            done = self.run_script("cache_key.sh", self.folder / "clone")
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        (self.folder / "clone/.git").mkdir(parents=True)
        (self.folder / "clone/source").write_text("one")
        first = key()
        release = platform.freedesktop_os_release()
        self.assertRegex(first, f"^key=verbena-{platform.machine()}-{release['ID']}-{release['VERSION_ID']}-[0-9a-f]{{16}}\n$")
        (self.folder / "clone/.git/index").write_text("anything")
        self.assertEqual(key(), first)
        (self.folder / "clone/source").write_text("two")
        self.assertNotEqual(key(), first)
        self.assertEqual(self.run_script("cache_key.sh").returncode, 2)
        self.use()
        self.assertEqual(self.run_script("cache_key.sh", self.at).stdout, f"key={self.given['cache'][0]['key']}\n")


class GitLab(Case):
    def setUp(self):
        super().setUp()
        self.job = yaml.safe_load((ROOT / "kits/gitlab/verbena.gitlab-ci.yml").read_text())[".verbena"]
        self.prefix = self.folder / ".verbena"
        self.environment["CI_PROJECT_DIR"] = str(self.folder)

    def run_job(self, script, **variables):
        """Runs a job: before_script and script share a shell, after_script has another one."""
        values = {**self.job["variables"], **variables}
        values = {name: value.replace("$CI_PROJECT_DIR", str(self.folder)) for name, value in values.items()}
        done = self.shell("\n".join([*self.job["before_script"], script]), **values)
        after = self.shell("\n".join(self.job["after_script"]), **values)
        self.assertEqual(after.returncode, 0, after.stderr)
        return done, after.stdout

    def test_a_job(self):
        done, after = self.run_job("verbena run -- ibv_devices", VERBENA_PACKAGE=f"file://{self.package}",
                                   VERBENA_SHA256=hashlib.sha256(self.package.read_bytes()).hexdigest())
        self.assertEqual((done.returncode, after), (0, ""), done.stderr)
        self.assertIn("verbena0", done.stdout)

    def test_a_job_that_fails(self):
        self.kept("it", "verbena: p[1]: refused\n", test="test_it", file="test_a.py", line=3)
        done, after = self.run_job("false", VERBENA_PACKAGE=f"file://{self.package}")
        self.assertEqual((done.returncode, after), (1, "test_a.py:3: verbena: p[1]: refused\n"), done.stderr)
        self.assertEqual(self.job["artifacts"]["paths"], ["verbena-artifacts/"])

    def test_what_is_wrong(self):
        done, _ = self.run_job("true")
        self.assertEqual((done.returncode, done.stdout),
                         (2, "set VERBENA_PACKAGE to the URL of Verbena's portable tarball\n"))
        done, _ = self.run_job("true", VERBENA_PACKAGE=f"file://{self.package}", VERBENA_SHA256="0" * 64)
        self.assertNotEqual(done.returncode, 0)
        self.assertFalse(self.prefix.exists())

    def test_an_image_without_curl(self):
        tools = self.folder / "tools"
        tools.mkdir()
        for tool in ("bash", "test"):
            (tools / tool).symlink_to(shutil.which(tool))
        done = self.shell("\n".join(self.job["before_script"]), PATH=str(tools), VERBENA_PREFIX=str(self.prefix),
                          VERBENA_PACKAGE=f"file://{self.package}")
        self.assertEqual((done.returncode, done.stdout),
                         (2, "Verbena's job fetches VERBENA_PACKAGE with curl, which this image lacks\n"))


if __name__ == "__main__":
    PREFIX = sys.argv[1]
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
