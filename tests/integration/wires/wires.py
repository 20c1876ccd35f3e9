# SPDX-License-Identifier: BSD-2-Clause
"""Two hosts and a wire between them. Each host is a network namespace with an emulator; the wire is a program
(wire.cpp) that has a TUN device in both.

    wires.py BIN WIRE TRANSFERS [NAME...]     measures the table beside tests/sim/goodput.txt, or some of its rows
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

LIMIT = 120
PORT = "18515"
# Each row has a name, options of the wire, and options of the transfers.
ROWS = (
    ("no fault", [], []),
    ("loss 1%", ["--loss", "1"], []),
    ("loss 5%", ["--loss", "5"], []),
    ("duplicates 10%", ["--duplicate", "10"], []),
    ("reorder 10%", ["--reorder", "10"], []),
    ("corruption 2%", ["--corrupt", "2"], []),
    ("1 ms delay", ["--delay", "1"], []),
    ("10 ms delay", ["--delay", "10"], ["--adds", "200"]),
    ("10 Mbit/s", ["--rate", "10"], ["--count", "48", "--adds", "100"]),
)


def become_root():
    """Becomes root, at least in a user namespace: namespaces and TUN devices need it."""
    if os.geteuid() != 0:
        os.execvp("unshare", ["unshare", "-Urn", sys.executable, "-B", *sys.argv])


class Host:
    """A network namespace with the address 10.44.0.NUMBER, and its programs."""

    def __init__(self, programs, number):
        self.programs = programs
        self.address = f"10.44.0.{number}"
        self.folder = tempfile.mkdtemp(prefix="verbena-wires-")
        self.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
                            "VERBENA_RUNTIME_DIR": self.folder + "/run"}
        self.room = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo there; exec sleep infinity"],
                                     stdout=subprocess.PIPE, text=True)
        self.room.stdout.readline()
        self.ip("link", "set", "lo", "up")

    def within(self, *command):
        return ["nsenter", "-t", str(self.room.pid), "-n", *command]

    def ip(self, *words):
        subprocess.run(self.within("ip", *words), check=True, timeout=LIMIT)

    def join(self):
        """Joins the wire, once it exists. Its queue is so long that only the wire itself loses packets."""
        self.ip("link", "set", "wire", "txqueuelen", "20000", "mtu", "1500")
        self.ip("address", "add", self.address + "/24", "dev", "wire")
        self.ip("link", "set", "wire", "up")
        done = self.verbena("up", "--roce", self.address)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)

    def verbena(self, *words):
        return subprocess.run(self.within(self.programs + "/verbena", *words), env=self.environment, timeout=LIMIT,
                              capture_output=True, text=True, check=False)

    def counters(self):
        done = self.verbena("status", "--json")
        return json.loads(done.stdout)["devices"][0]["ports"][0]

    def start(self, *command):
        return subprocess.Popen(self.within(self.programs + "/verbena", "run", "--", *command), env=self.environment,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def close(self):
        self.verbena("down")
        self.room.kill()
        self.room.wait()
        self.room.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Wire:
    """`with Wire(programs, wire, transfers, *options)` gives two hosts that reach each other. `counts` is set at the
    end."""

    def __init__(self, programs, wire, transfers, *options):
        self.transfers = transfers
        self.hosts = [Host(programs, number) for number in (1, 2)]
        self.process = subprocess.Popen([wire, *(str(h.room.pid) for h in self.hosts), *options], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.counts = None

    def __enter__(self):
        if self.process.stdout.readline() != "there\n":
            self.close()
            raise RuntimeError("no wire: is there /dev/net/tun?")
        for host in self.hosts:
            host.join()
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for host in self.hosts:
            host.close()
        text, _ = self.process.communicate(timeout=LIMIT)
        self.counts = json.loads(text) if text else None

    def transfer(self, *options):
        """Runs all transfers. Returns what client and server have printed; raises an error if either failed."""
        server = self.hosts[0].start(self.transfers, PORT, *options)
        client = None
        try:
            said = ""
            while "listening" not in said and server.poll() is None:
                said = server.stdout.readline()
            client = self.hosts[1].start(self.transfers, PORT, self.hosts[0].address, *options)
            texts = [process.communicate(timeout=LIMIT)[0] for process in (client, server)]
        finally:
            for process in (server, client):
                with contextlib.suppress(ProcessLookupError, AttributeError):
                    process.kill()
        if client.returncode != 0 or server.returncode != 0:
            raise AssertionError(f"client: {texts[0]}\nserver: {texts[1]}")
        return texts


def retransmitted(host):
    port = host.counters()
    return port["counters"].get("retransmitted_packets", 0)


def table(programs, wire, transfers, *wanted):
    print(f"# {'wire':16} {'write':>8} {'send':>8} {'read':>8} {'adds/s':>8} {'all':>8}")
    for name, faults, options in ROWS:
        if wanted and name not in wanted:
            continue
        try:
            with Wire(programs, wire, transfers, *faults) as both:
                words = both.transfer("--count", "512", "--depth", "32", *options)[0].split()
                again = [retransmitted(host) for host in both.hosts]
        except AssertionError as failed:
            print(f"{name:18} {failed}")
            continue
        figures = dict(zip(words[::2], words[1::2], strict=False))
        cells = " ".join(f"{figures[key]:>8}" for key in ("write", "send", "read", "adds", "all"))
        print(f"{name:18} {cells}   {again} {both.counts}", flush=True)


if __name__ == "__main__":
    become_root()
    table(*sys.argv[1:])
