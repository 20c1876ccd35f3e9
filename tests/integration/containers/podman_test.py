#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Containers of podman and runc get the devices by `verbena cdi`: the image contains nothing of Verbena, and the
container has no privilege.

    podman_test.py BUILD
"""

import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "provider"))
from device import Emulator  # noqa: E402

BUILD = None
LIMIT = 120
USER = 4711
# The programs of the image. The image gets these, and the libraries that they need.
PROGRAMS = ("ibv_rc_pingpong", "ibv_devinfo", "ibv_devices", "sh", "cat", "id")
SPECIFICATION = "/etc/cdi/verbena.json"
LISTENING = ":4853 00000000:0000 0A"  # TCP port 18515
PRIVATE = "VERBENA_TEST_HAS_MOUNTS_OF_ITS_OWN"


def run(*words, **more):
    return subprocess.run([str(word) for word in words], text=True, capture_output=True, timeout=LIMIT, check=False, **more)


def must(*words, **more):
    done = run(*words, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout


def make_root(root):
    """Makes a root file system of this machine's own files, because no image can be fetched without a network."""
    for folder in ("usr/bin", "usr/lib", "usr/lib64", "etc/libibverbs.d", "tmp", "proc", "dev", "sys", "run", "var"):
        (root / folder).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    programs = [pathlib.Path(shutil.which(name)).resolve() for name in PROGRAMS]
    ours = [pathlib.Path(BUILD, "bin", name) for name in ("verbena", "verbenad")]
    for program in [*programs, *ours]:
        for word in must("ldd", program).split():
            if word.startswith("/"):
                target = root / word.lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(word, target)
    for name, program in zip(PROGRAMS, programs):
        shutil.copy(program, root / "usr/bin" / name)
    (root / "etc/passwd").write_text(f"root:x:0:0:root:/:/bin/sh\nuser:x:{USER}:{USER}::/:/bin/sh\n")
    (root / "tmp").chmod(0o1777)


class Podman:
    """An image and its containers, in a folder of the test's own."""

    def __init__(self, folder, become=(), **variables):
        self.become, self.environment = list(become), {**os.environ, **variables}
        self.words = [*become, "podman", "--root", str(folder / "store"), "--runroot", str(folder / "run"), "--storage-driver",
                      "vfs", "--cgroup-manager", "cgroupfs", "--runtime", "runc"]
        self.folder = folder

    def make_image(self):
        image = self.folder / "image"
        make_root(image)
        must("tar", "-C", image, "-cf", self.folder / "image.tar", ".")
        shutil.rmtree(image)
        self.import_image(self.folder / "image.tar")

    def import_image(self, file):
        must(*self.words, "import", file, "stranger:1", env=self.environment)

    def command(self, options, *words):
        limits = []  # engines ask for higher limits than a nested container may have
        for name, number, enough in (("nofile", resource.RLIMIT_NOFILE, 20000), ("nproc", resource.RLIMIT_NPROC, 1000)):
            hard = resource.getrlimit(number)[1]
            value = enough if hard == resource.RLIM_INFINITY else min(hard, enough)
            limits += ["--ulimit", f"{name}={value}:{value}"]
        return [*self.words, "run", "--rm", *limits, *options, "stranger:1", *words]

    def run(self, options, *words):
        return run(*self.command(options, *words), env=self.environment)

    def start(self, options, *words):
        return subprocess.Popen(self.command(options, *words), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env=self.environment)


def is_listened_for(namespace):
    return any(LISTENING in line for line in run("ip", "netns", "exec", namespace, "cat", "/proc/net/tcp").stdout.splitlines())


@unittest.skipUnless(os.geteuid() == 0, "containers with networks of their own: only root makes them")
class Containers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="verbena-podman-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.folder.chmod(0o755)
        cls.podman = Podman(cls.folder)
        cls.podman.make_image()
        cls.addClassCleanup(run, *cls.podman.words, "system", "reset", "--force")
        cls.networks = [f"vb{os.getpid()}{side}" for side in "ab"]
        for number, name in enumerate(cls.networks, 1):
            must("ip", "netns", "add", name)
            cls.addClassCleanup(run, "ip", "netns", "delete", name)
        must("ip", "-n", cls.networks[0], "link", "add", "pod", "type", "veth", "peer", "name", "pod", "netns", cls.networks[1])
        for number, name in enumerate(cls.networks, 1):
            must("ip", "-n", name, "address", "add", f"10.99.0.{number}/24", "dev", "pod")
            for link in ("lo", "pod"):
                must("ip", "-n", name, "link", "set", link, "up")

    def setUp(self):
        self.device = self.enterContext(Emulator(BUILD))
        done = self.device.control("cdi", "--check", "podman", "--output", SPECIFICATION)
        self.assertEqual(done.returncode, 0, done.stderr)

    def options(self, network=None):
        return ["--device", "verbena.dev/rdma=verbena0",
                *(["--network", f"ns:/run/netns/{self.networks[network]}"] if network is not None else ["--network", "none"])]

    def pair(self, server, client):
        """Runs each of two command lines in a container and a network of its own."""
        with self.podman.start(*server) as first:
            try:
                end = time.monotonic() + LIMIT
                while not is_listened_for(self.networks[0]) and first.poll() is None and time.monotonic() < end:
                    time.sleep(0.05)
                second = self.podman.run(*client)
                text, _ = first.communicate(timeout=LIMIT)
            finally:
                first.kill()
        said = f"server {first.returncode}: {text}\nclient {second.returncode}: {second.stdout}{second.stderr}"
        self.assertEqual((first.returncode, second.returncode), (0, 0), said)

    def test_the_device_without_privilege(self):
        """The root is read-only, podman's own seccomp profile is on, there is no capability, and nothing of Verbena
        inside."""
        options = [*self.options(), "--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges"]
        done = self.podman.run(options, "sh", "-c", "ibv_devinfo -d verbena0; cat /proc/self/status")
        self.assertIn("PORT_ACTIVE", done.stdout, done.stderr)
        self.assertRegex(done.stdout, r"Seccomp:\s+2\n")
        self.assertRegex(done.stdout, r"CapEff:\s+0000000000000000\n")

    def test_without_the_option_there_is_none(self):
        done = self.podman.run(["--network", "none"], "ibv_devinfo")
        self.assertNotIn("verbena0", done.stdout)

    def test_two_containers_share_an_emulator(self):
        command = ["ibv_rc_pingpong", "-n", "100"]
        self.pair((self.options(0), *command), (self.options(1), *command, "10.99.0.1"))
        self.assertGreaterEqual(self.device.sent_packets(), 200)

    def test_two_emulators_over_the_network(self):
        """Each container has an emulator of its own, whose RoCE device is at the address of the container."""
        def command(number):
            return [["--network", f"ns:/run/netns/{self.networks[number - 1]}", "-v", f"{BUILD}:/opt/verbena:ro"],
                    "/opt/verbena/bin/verbena", "run", "--roce", f"10.99.0.{number}", "--device", "roce0", "--",
                    "ibv_rc_pingpong", "-n", "100", "-g", "3", "-d", "roce0"]
        self.pair(command(1), [*command(2), "10.99.0.1"])

    def stopped(self, options, *words):
        """The exit code of a container without an init, which has been asked to end when it has printed its first line."""
        name = f"verbena-{os.getpid()}"
        with self.podman.start([*options, "--name", name], *words) as container:
            try:
                self.assertEqual(container.stdout.readline(), "ready\n")
                begun = time.monotonic()
                must(*self.podman.words, "stop", "--time", LIMIT // 2, name, env=self.podman.environment)
                self.assertLess(time.monotonic() - begun, LIMIT // 2)
                container.communicate(timeout=LIMIT)
            finally:
                container.kill()
        return container.returncode

    def test_process_1_can_be_stopped(self):
        """Below `verbena run` each program; the kernel drops SIGTERM to a process 1 that does not handle it."""
        pingpong = ["sh", "-c", "echo ready; exec ibv_rc_pingpong -p 0"]
        mounted = ["--network", "none", "-v", f"{BUILD}:/opt/verbena:ro"]
        self.assertEqual(self.stopped(mounted, "/opt/verbena/bin/verbena", "run", "--", *pingpong), 143)
        self.assertEqual(self.stopped(self.options(), "/opt/verbena/bin/verbena", "run", "--", *pingpong), 143)

    def test_a_time_limit(self):
        """Of an emulator outside, whose numbers of processes are others."""
        words = ["/opt/verbena/bin/verbena", "run", "--timeout", "1", "--", "ibv_rc_pingpong", "-p", "0"]
        done = self.podman.run(self.options(), *words)
        self.assertEqual(done.returncode, 124, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"ibv_rc_pingpong\[\d+\]: RC QP 0x\w+ is in INIT")

    def test_doctor_inside(self):
        doctor = ["/opt/verbena/bin/verbena", "doctor"]
        done = self.podman.run(self.options(), *doctor)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("ok     in a container (podman)", done.stdout)
        self.assertRegex(done.stdout, "emulator .* runs")
        self.assertIn("programs of this shell see the device", done.stdout)
        done = self.podman.run([*self.options(), "--user", str(USER)], *doctor)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, "FAULT  runtime directory /run/verbena.*\n +run the container as the user who started")
        profile = self.folder / "seccomp.json"
        rule = {"names": ["memfd_create", "timerfd_create"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}
        profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}))
        done = self.podman.run([*self.options(), "--security-opt", f"seccomp={profile}"], *doctor)
        self.assertEqual(done.returncode, 1)
        for name in rule["names"]:
            self.assertRegex(done.stdout, f"FAULT  {name} is refused: Operation not permitted\n.*seccomp")


    def test_rootless(self):
        """An ordinary user has an emulator and a container, is root in the container, and the emulator still knows the
        user."""
        home = self.folder / "home"
        (home / "runtime").mkdir(parents=True)
        (home / "runtime").chmod(0o700)
        os.chmod("/etc/cdi", 0o777)
        pathlib.Path(SPECIFICATION).unlink()
        for path in (home, home / "runtime"):
            os.chown(path, USER, USER)
        lines = {"passwd": f"someone:x:{USER}:{USER}::{home}:/bin/sh\n", "group": f"someone:x:{USER}:\n",
                 "subuid": "someone:600000:65536\n", "subgid": "someone:600000:65536\n"}
        for name, line in lines.items():
            path = pathlib.Path("/etc", name)
            changed = self.folder / name
            changed.write_text((path.read_text() if path.exists() else "") + line)
            path.touch()
            must("mount", "--bind", changed, path)
            self.addCleanup(run, "umount", path)
        become = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
        device = Emulator(BUILD)
        device.as_user(become)
        podman = Podman(home, become, HOME=str(home), XDG_RUNTIME_DIR=str(home / "runtime"))
        self.addCleanup(run, *podman.words, "system", "reset", "--force", env=podman.environment)
        with device:
            done = device.control("cdi", "--output", SPECIFICATION)
            self.assertEqual(done.returncode, 0, done.stderr)
            podman.import_image(self.folder / "image.tar")
            done = podman.run(self.options(), "sh", "-c", "id; ibv_devinfo; /opt/verbena/bin/verbena doctor")
        self.assertIn("uid=0", done.stdout, done.stderr)
        self.assertIn("PORT_ACTIVE", done.stdout, done.stderr)
        self.assertIn(f"user id 0 here is {USER} outside", done.stdout)
        self.assertIn("all in place", done.stdout)


def with_mounts_of_our_own():
    """Runs this test in a mount namespace where /etc/cdi, in which podman looks for specifications, is its own. Returns
    the test's exit code."""
    folder = pathlib.Path("/etc/cdi")
    is_new = not folder.exists()
    folder.mkdir(exist_ok=True)
    script = f'mount -t tmpfs none {folder} && exec "$@"'
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-B", *sys.argv],
                          env={**os.environ, PRIVATE: "yes"}, check=False)
    if is_new:
        folder.rmdir()
    return done.returncode


if __name__ == "__main__":
    if os.geteuid() == 0 and PRIVATE not in os.environ:
        sys.exit(with_mounts_of_our_own())
    BUILD = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
