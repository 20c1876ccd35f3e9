# SPDX-License-Identifier: BSD-2-Clause
"""Processes that do one verb at a time (puppet.cpp), and the counters of their port."""

import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "provider"))
import device as devices  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "emulator"))
import control_client  # noqa: E402

LIMIT = 60
PREFIX = PROGRAM = None


class Puppet:
    """A puppet process. `do("send", count=3)` returns its answer."""

    def __init__(self, device, kind="rc", link="udp", **environment):
        # The file has a path, so that it outlives the process.
        self.errors = tempfile.NamedTemporaryFile("w+", prefix="verbena-puppet-")  # noqa: SIM115
        self.process = subprocess.Popen(device.wrap([PROGRAM, kind]), text=True, bufsize=1,
                                        env=dict(device.environment, VERBENA_LINK=link, **environment),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        words = self.process.stdout.readline().split()
        if not words or words[0] != "here":
            raise AssertionError(f"{words}, {self.said()}")
        self.lid, self.qpn, self.rkey, self.address = int(words[1]), int(words[3]), int(words[4]), int(words[5])
        self.gid = words[2]

    def do(self, verb, *plain, **words):
        self.ask(verb, *plain, **words)
        return self.answer()

    def ask(self, verb, *plain, **words):
        """Sends a verb and does not wait for the answer."""
        self.process.stdin.write(" ".join([verb, *plain, *(f"{k}={v}" for k, v in words.items())]) + "\n")

    def answer(self):
        return self.process.stdout.readline().strip()

    def said(self):
        """Returns the explanations that the process has printed so far."""
        return pathlib.Path(self.errors.name).read_text(encoding="utf-8")

    @property
    def to(self):
        """Returns what a peer must name to connect or send to this puppet."""
        return {"lid": self.lid, "gid": self.gid, "qpn": self.qpn}

    @property
    def memory(self):
        return {"rkey": self.rkey, "address": self.address}

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        """Lets the process close everything and end. Returns what it has printed."""
        answer = self.do("end")
        self.process.stdin.close()
        self.process.wait(LIMIT)
        assert answer == "ok", answer
        return self.said()

    def close(self):
        if self.process.poll() is None:
            self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self.errors.close()


class PuppetCase(unittest.TestCase):
    """The base of the tests. Each class has an emulator of its own, so tests compare its counters with earlier values."""

    options = ()

    @classmethod
    def setUpClass(cls):
        cls.device = cls.enterClassContext(devices.Emulator(PREFIX, *cls.options))

    def source_port(self):
        """Returns a UDP port that the emulator's devices send from."""
        with control_client.Client(self.device.environment["VERBENA_RUNTIME_DIR"]).open_device() as client:
            return client.source_port

    def start(self, kind="rc", link="udp", **environment):
        puppet = Puppet(self.device, kind, link, **environment)
        self.addCleanup(puppet.close)
        return puppet

    def pair(self, link="udp", kind="rc", **words):
        """Returns two connected puppets, with rings both ways unless the link is UDP. `words` are for the first one."""
        first, second = self.start(kind, link), self.start(kind, link)
        self.assertEqual(second.do("connect", **first.to), "ok")
        self.assertEqual(first.do("connect", **second.to, **words), "ok")
        if link != "udp":
            self.until(lambda: self.is_by_ring(first, second) and self.is_by_ring(second, first), "there is no ring")
        return first, second

    def is_by_ring(self, puppet, peer):
        """Sends something, which asks for a ring. Returns whether there is one."""
        self.assertEqual(puppet.do("write", length=8, **peer.memory), "ok")
        self.assertEqual(puppet.do("poll"), "0")
        return self.qp_of(puppet)["link"] == "ring"

    def status(self, *words):
        done = self.device.control("status", "--json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def port(self, *words):
        """Returns counters and drops, under the names of hw_counters."""
        port = self.status(*words)["devices"][0]["ports"][0]
        return port["counters"] | {f"rx_drop_{name}": count for name, count in port["drops"].items()}

    def files(self, folder):
        """Returns what a program reads below the port in sysfs."""
        path = f"/sys/class/infiniband/{self.status()['devices'][0]['name']}/ports/1/{folder}"
        done = self.device.run(["grep", "-H", "", "-r", path])
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = (line.rsplit(":", 1) for line in done.stdout.splitlines())
        return {pathlib.PurePath(name).name: int(value) for name, value in lines}

    def moved(self, before):
        """Returns the counters that have changed since, and by how much."""
        now = self.port()
        return {name: now[name] - before.get(name, 0) for name in now if now[name] != before.get(name, 0)}

    def until(self, condition, what):
        end = time.monotonic() + LIMIT
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)

    def qp_of(self, puppet):
        """Returns the puppet's queue pair as status shows it."""
        return next(qp for context in self.status()["devices"][0]["contexts"] for qp in context["qps"]
                    if int(qp["qpn"], 16) == puppet.qpn)
