# SPDX-License-Identifier: BSD-2-Clause
"""The device that the programs use: an emulator of its own, or a device of this machine.

Owner: conformance/run, one per persona and user. Each Emulator has its own runtime folder and fabric, so parallel runs
do not meet each other, nor the emulator of a user of this machine. The binaries are copied to a folder that every user
can read, because `nobody` may have no access to the build tree.
"""

import os
import pathlib
import pwd
import random
import shutil
import socket
import subprocess
import time

LINKS = ("auto", "udp", "shm")
_ROCE_PORT = 4791
_PATIENCE = 15.0  # seconds for the emulator to start, and to end
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class DeviceError(Exception):
    """There is no device; the text says why."""


def stage(prefix, folder):
    """Copies the product from a build tree or an installation to folder/{bin,lib}; returns the new prefix."""
    prefix, target = pathlib.Path(prefix), pathlib.Path(folder, "prefix")
    parts = [prefix / "bin" / "verbena", prefix / "bin" / "verbenad", *prefix.glob("lib*/libverbena-*.so"),
             *prefix.glob("lib*/*/libverbena-*.so")]
    missing = [str(part) for part in parts[:2] if not part.exists()]
    if missing or len(parts) < 4:
        raise DeviceError(f"no product in {prefix}: missing {', '.join(missing) or 'libverbena-*.so'}")
    for part in parts:
        place = target / part.relative_to(prefix)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(part, place)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755)
    return target


def as_user(user):
    """Returns the command prefix that makes a program run as this user."""
    if user == "nobody" and os.geteuid() == 0:
        return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    return []


def environment(user, **more):
    """Returns a plain environment, so that the variables of the tester's shell do not decide the outcome."""
    account = pwd.getpwnam("nobody") if user == "nobody" and os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    kept = {name: os.environ[name] for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS")
            if name in os.environ}
    return {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": "/nonexistent", "USER": account.pw_name, **kept, **more}


def free_fabric():
    """Returns a free /24 inside 127.0.0.0/8 as 'A.B.C'. It is free if its first address has no socket on the RoCE port."""
    for _ in range(100):
        prefix = f"127.{random.randrange(64, 250)}.{random.randrange(1, 250)}"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((f"{prefix}.1", _ROCE_PORT))
            except OSError:
                continue
        return prefix
    raise DeviceError("no free fabric in 127.0.0.0/8")


class Emulator:
    """An emulator started for this run: `verbena up`, programs through `verbena run`, `verbena down`."""

    def __init__(self, prefix, persona, user, folder, link="auto"):
        self.name = "verbena0"
        # The GID is the RoCE v2 row with the IPv4 address, at the index that it has on adapters.
        self.gid = "3" if persona == "roce" else "0"
        self.user = user
        self._verbena = str(pathlib.Path(prefix, "bin", "verbena"))
        self._folder = pathlib.Path(folder)
        runtime = self._folder / "runtime"
        runtime.mkdir(mode=0o700)
        if as_user(user):
            shutil.chown(runtime, "nobody", "nogroup")
        self.environment = environment(user, VERBENA_RUNTIME_DIR=str(runtime), VERBENA_LINK=link)
        fabric = free_fabric()
        self.address = f"{fabric}.1"
        self._options = ["--roce", self.address] if persona == "roce" else ["--fabric", f"{fabric}.0/24"]
        self._up = None

    def __enter__(self):
        self._log = open(self._folder / "up.log", "wb")
        self._up = subprocess.Popen([*as_user(self.user), self._verbena, "up", *self._options],
                                    stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
                                    env=self.environment, start_new_session=True)
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                code = self._up.wait(timeout=0.1)
            except subprocess.TimeoutExpired:
                code = None
            if code not in (None, 0):
                raise DeviceError(f"verbena up ended with {code}: {self._up_text()}")
            if self._command("status").returncode == 0:
                return self
            if time.monotonic() > deadline:
                raise DeviceError(f"no emulator after {_PATIENCE:g} s: {self._up_text()}")

    def __exit__(self, *_):
        self._command("down")
        try:
            self._up.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            self._up.kill()
            self._up.wait()
        self._log.close()

    def wrap(self, command):
        """Returns the command line that gives a program this device, as this device's user."""
        return [*as_user(self.user), self._verbena, "run", "--", *command]

    def control(self, arguments):
        """Returns the command line of a `verbena ...` command of a manifest."""
        return [*as_user(self.user), self._verbena, *arguments]

    def sent_packets(self):
        """Returns the port's own counter, read as any program reads it."""
        path = f"/sys/class/infiniband/{self.name}/ports/1/counters/port_xmit_packets"
        done = subprocess.run(self.wrap(["cat", path]), capture_output=True, text=True, env=self.environment,
                              timeout=_PATIENCE, check=False)
        if done.returncode != 0 or not done.stdout.strip().isdigit():
            raise DeviceError(f"cannot read {path}: {(done.stderr or done.stdout).strip()}")
        return int(done.stdout)

    def _command(self, word):
        return subprocess.run(self.control([word]), capture_output=True, env=self.environment, timeout=_PATIENCE,
                              check=False)

    def _up_text(self):
        self._log.flush()
        return (self._folder / "up.log").read_text(errors="replace").strip()


class PresentDevice:
    """A device of this machine that is not Verbena's, to check a manifest against another implementation."""

    def __init__(self, words, user, counters=None):
        """`words` is "NAME,ADDRESS" or "NAME,ADDRESS,GID INDEX"."""
        self.name, self.address, self.gid, *_ = words.split(",") + ["0"]
        self.user = user
        self.environment = environment(user)
        port = pathlib.Path("/sys/class/infiniband", self.name, "ports/1")
        self._counters = [pathlib.Path(counters)] if counters else [
            port / "counters/port_xmit_packets", port / "hw_counters/sent_pkts"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def wrap(self, command):
        return [*as_user(self.user), *command]

    def control(self, arguments):
        raise DeviceError(f"{self.name} is not an emulator: cannot run verbena {' '.join(arguments)}")

    def sent_packets(self):
        for counter in self._counters:
            if counter.exists():
                return int(counter.read_text())
        raise DeviceError(f"{self.name} has no packet counter")
