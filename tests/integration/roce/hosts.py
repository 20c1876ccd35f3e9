# SPDX-License-Identifier: BSD-2-Clause
"""Network namespaces as hosts, with an emulator in each, for the tests of this folder.

A program that imports this runs in a namespace of its own already (roce_test.py sees to it) and may make interfaces
there.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "provider"))
import device as devices  # noqa: E402

LIMIT = 60.0
PREFIX = None  # the folder above bin/verbena; set by roce_test.py
PORT = 18515   # a TCP port; each namespace has its own ports


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Host:
    """A namespace with one end of a veth pair as eth0, and the programs that run there."""

    def __init__(self, number, enter=()):
        self.number = number
        self.enter = list(enter)
        self.v4 = f"10.9.0.{number}"
        self.v6 = f"fd00:9::{number}"
        self.link_local = f"fe80::9:{number}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="verbena-roce-"))
        self.environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "VERBENA_RUNTIME_DIR": str(self.folder / "run"),
                            **devices.sanitizers(f"{PREFIX}/bin/verbena")}
        self.started = []

    def ip(self, *words):
        done = subprocess.run([*self.enter, "ip", *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"ip {' '.join(words)}: {done.stderr}")

    def take(self, interface):
        """Renames the interface to eth0, and gives it an IPv4 address and two IPv6 addresses."""
        self.ip("link", "set", "lo", "up")
        self.ip("link", "set", interface, "name", "eth0", "addrgenmode", "none")
        self.ip("link", "set", "eth0", "up")
        self.ip("address", "add", self.v4 + "/24", "dev", "eth0")
        for address in (self.link_local, self.v6):
            self.ip("address", "add", address + "/64", "dev", "eth0", "nodad")

    def verbena(self, *words):
        return subprocess.run([*self.enter, f"{PREFIX}/bin/verbena", *words], env=self.environment, text=True,
                              capture_output=True, timeout=LIMIT, check=False)

    def up(self, *words):
        done = self.verbena("up", *(words or ["--roce", self.v4]))
        if done.returncode != 0:
            raise RuntimeError(done.stderr)

    def close(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()
        self.verbena("down")
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, *command, link="auto", **variables):
        process = subprocess.Popen([*self.enter, f"{PREFIX}/bin/verbena", "run", "--", *command], text=True,
                                   env=dict(self.environment, VERBENA_LINK=link, **variables),
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.started.append(process)
        return process

    def run(self, *command, **variables):
        process = self.start(*command, **variables)
        text, _ = process.communicate(timeout=LIMIT)
        return subprocess.CompletedProcess(command, process.returncode, stdout=text)

    def device(self, number=0):
        done = self.verbena("status", "--json")
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return json.loads(done.stdout)["devices"][number]

    def gids(self):
        """Returns the rows that are in use: {index: (address, type)}."""
        return {row["index"]: (row["gid"], row["type"]) for row in self.device()["ports"][0]["gid_table"]}

    def row_of(self, address, kind="RoCE v2"):
        wanted = full(address)
        return next((i for i, row in self.gids().items() if row == (wanted, kind)), None)

    def listens(self, port):
        wanted = f":{port:04X}"
        for table in ("tcp", "tcp6"):
            text = subprocess.run([*self.enter, "cat", f"/proc/net/{table}"], capture_output=True, text=True, check=False)
            for line in text.stdout.splitlines()[1:]:
                words = line.split()
                if words[3] == "0A" and words[1].endswith(wanted):
                    return True
        return False


def full(address):
    """Returns the address in the form of sysfs."""
    if ":" not in address:
        parts = [int(p) for p in address.split(".")]
        return "0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x" % tuple(parts)
    head, _, tail = address.partition("::")
    left = head.split(":") if head else []
    right = tail.split(":") if tail else []
    middle = ["0"] * (8 - len(left) - len(right)) if "::" in address else []
    return ":".join(f"{int(part, 16):04x}" for part in [*left, *middle, *right])


class HostCase(unittest.TestCase):
    """The base of tests with one host, whose eth0 has a peer that answers nothing."""

    def setUp(self):
        ip("link", "add", "one", "type", "veth", "peer", "name", "other")
        ip("link", "set", "other", "up")
        self.addCleanup(self.remove_interfaces)
        self.host = Host(1)
        self.addCleanup(self.host.close)
        self.host.take("one")

    def remove_interfaces(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            ip("link", "delete", "eth0")

    def until(self, condition, what):
        end = time.monotonic() + LIMIT
        while not condition():
            self.assertLess(time.monotonic(), end, what() if callable(what) else what)
            time.sleep(0.05)

    def pair(self, server_host, client_host, server, client, **variables):
        """Runs server and client. Returns what they have printed."""
        listener = server_host.start(*server, **variables)
        self.until(lambda: server_host.listens(PORT) or listener.poll() is not None, "the server does not listen")
        done = client_host.run(*client, **variables)
        if done.returncode == 0:
            text, _ = listener.communicate(timeout=LIMIT)
        else:
            listener.kill()
            text, _ = listener.communicate()
        self.assertEqual((done.returncode, listener.returncode), (0, 0), f"{client}\n{done.stdout}\n{server}\n{text}")
        return text, done.stdout

    def pingpong(self, server_host, client_host, *options, program="ibv_rc_pingpong", **variables):
        common = [program, "-p", str(PORT), "-n", "100", *options]
        for text in self.pair(server_host, client_host, common, [*common, server_host.v4], **variables):
            self.assertIn("100 iters in", text)

    def cm(self, server_host, client_host, server, client):
        """Runs programs of rdma_cm. Outside it cannot be seen when their server listens, so the client tries again."""
        listener = server_host.start(*server)
        texts = []

        def connects():
            has_ended = listener.poll() is not None
            done = client_host.run(*client)
            texts.append(f"exit code {done.returncode}: {done.stdout}")
            if has_passed(client, done):
                return True
            if has_ended:
                self.fail("the server has ended:\n" + listener.communicate()[0] + "\n" + "\n".join(texts[-3:]))
            return False

        self.until(connects, lambda: "\n".join(texts[-3:]))
        text, _ = listener.communicate(timeout=LIMIT)
        self.assertEqual(listener.returncode, 0, text)
        return re.sub("verbena: .*\n", "", text)


def has_passed(client, done):
    """Returns whether the client succeeded: programs have to exit with 0. rping may exit with 255 after all went well,
    because its event thread may read a channel that its main thread has closed. Then its output decides."""
    if done.returncode == 255 and client[0] == "rping":
        wanted = int(client[client.index("-C") + 1])
        return "-v" in client and done.stdout.count("ping data: ") == wanted
    return done.returncode == 0
