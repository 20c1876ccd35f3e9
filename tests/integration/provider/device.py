# SPDX-License-Identifier: BSD-2-Clause
"""An emulator for one test of the provider, and pairs of programs that use it.

Each test has its own runtime folder and fabric, so tests can run in parallel. Servers listen on a free TCP port, for
which the test waits. No function sleeps for a guessed time.
"""

import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import tempfile
import time

LIMIT = 60.0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    """Returns whether a process listens on this TCP port, without connecting to it."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[1].endswith(wanted):
                return True
    return False


def sanitizers(verbena):
    """Returns what programs need in their environment if the product is built with AddressSanitizer: the suite's
    options, and the runtime before the C library, also for the distribution's programs."""
    needed = subprocess.run(["ldd", verbena], capture_output=True, text=True, check=False).stdout
    found = re.search(r"=> (\S*/libasan\S*)", needed)
    kept = {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}
    return dict(kept, LD_PRELOAD=found[1]) if found else kept


class Emulator:
    """Entering runs `verbena up`, leaving runs `verbena down`."""

    def __init__(self, prefix, *options):
        self.verbena = str(pathlib.Path(prefix, "bin", "verbena"))
        self._options = options
        self._become = []

    def as_user(self, become):
        """Runs everything behind these words, which change the user. To be called before entering."""
        self._become = become

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="verbena-provider-"))
        if self._become:
            self.folder.chmod(0o777)
        self.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
                            "VERBENA_RUNTIME_DIR": str(self.folder / "run"), **sanitizers(self.verbena)}
        for _ in range(20):
            self.fabric = f"127.{random.randrange(64, 250)}.{random.randrange(1, 250)}.0/24"
            up = self.control("up", "--fabric", self.fabric, *self._options)
            if up.returncode == 0:
                return self
        raise RuntimeError(f"verbena up: {up.stderr}")

    def __exit__(self, *_):
        self.control("down")
        shutil.rmtree(self.folder, ignore_errors=True)

    def control(self, *words):
        return subprocess.run([*self._become, self.verbena, *words], env=self.environment, capture_output=True, text=True,
                              timeout=LIMIT, check=False)

    def wrap(self, command):
        return [*self._become, self.verbena, "run", "--", *command]

    def run(self, command, **more):
        return subprocess.run(self.wrap(command), env=self.environment, capture_output=True, text=True,
                              timeout=LIMIT, check=False, **more)

    def start(self, command, **more):
        return subprocess.Popen(self.wrap(command), env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, **more)

    def sent_packets(self):
        done = self.run(["cat", "/sys/class/infiniband/verbena0/ports/1/counters/port_xmit_packets"])
        return int(done.stdout)


class Pair:
    """A program as server and as client, with the same options."""

    def __init__(self, device, command):
        port = free_port()
        self.command = [*command, "-p", str(port)]
        server = device.start(self.command)
        try:
            end = time.monotonic() + LIMIT
            while not listens(port) and server.poll() is None and time.monotonic() < end:
                time.sleep(0.02)
            self.client = device.run([*self.command, "127.0.0.1"])
            self.server_text, _ = server.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired as late:
            self.client = subprocess.CompletedProcess(late.cmd, 124, stdout="", stderr="no end within the limit")
            server.kill()
            self.server_text, _ = server.communicate()
        self.server_code = server.returncode

    @property
    def ok(self):
        return self.client.returncode == 0 and self.server_code == 0

    def report(self):
        return (f"{' '.join(self.command)}: server {self.server_code}, client {self.client.returncode}\n"
                f"server: {self.server_text}\nclient: {self.client.stdout}{self.client.stderr}")
