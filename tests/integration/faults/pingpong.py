# SPDX-License-Identifier: BSD-2-Clause
"""Two processes of the `steps` program, which tests kill at a step.

A Game has an emulator of its own (tests/integration/provider/device.py). No function here sleeps for a guessed time: it
waits for each line of a program, with a limit.
"""

import json
import os
import pathlib
import re
import select
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "provider"))
import device as devices  # noqa: E402

LIMIT = 30.0
STEPS = ["start", "opened", "registered", "made", "ready_to_receive", "connected", "first", "half", "done",
         "destroyed", "closed"]
FINISHED = STEPS[STEPS.index("done"):]


class Silence(AssertionError):
    """A program neither printed what it had to nor ended."""


class Side:
    """One process, and its lines as they come."""

    def __init__(self, device, words, **more):
        self.process = device.start(words, stdin=subprocess.PIPE, bufsize=1, **more)
        self.pid = self.process.pid
        self.address = self.end = None
        self.step = None
        self.said = []
        self._rest = ""

    def read_line(self, limit=LIMIT):
        """Returns the next line, or None at the end of the output."""
        deadline = time.monotonic() + limit
        while "\n" not in self._rest:
            if not select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                raise Silence(f"nothing within {limit} s after: {self.said}")
            part = os.read(self.process.stdout.fileno(), 4096).decode()
            if not part:
                return None
            self._rest += part
        line, self._rest = self._rest.split("\n", 1)
        self.said.append(line)
        return line

    def go_on(self, peer_address=None):
        """Runs until the program stops at a step, wants its peer's address, or ends."""
        while (line := self.read_line()) is not None:
            word, _, rest = line.partition(" ")
            if word == "at":
                self.step = rest
                return
            if word == "address":
                self.address = rest
                if peer_address is None:
                    return
                self.tell(peer_address)
            if word == "end":
                self.end = rest
        self.process.wait(LIMIT)

    def tell(self, text=""):
        try:
            self.process.stdin.write(text + "\n")
        except BrokenPipeError:
            pass  # the program has ended; its last line says how

    def kill(self):
        self.process.kill()
        self.close()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass


class Game:
    """An emulator, and pairs of processes on it."""

    def __init__(self, prefix, program):
        self.device = devices.Emulator(prefix)
        self.program = program
        self.sides = []

    def __enter__(self):
        self.device.__enter__()
        return self

    def __exit__(self, *_):
        self.clear()
        self.device.__exit__()

    def clear(self):
        for side in self.sides:
            side.close()
        self.sides = []

    def start_pair(self, stop_at=None, options=()):
        self.clear()
        words = [self.program, *options, *(["-s", stop_at] if stop_at else [])]
        self.sides = [Side(self.device, [*words, role]) for role in ("server", "client")]
        return self.sides

    def bring_to(self, step, options=()):
        """Starts a pair, and returns both sides once they have stopped at the step."""
        server, client = sides = self.start_pair(step, options)
        for side in sides:
            side.go_on()
        if not any(side.step for side in sides):
            if not (server.address and client.address):
                raise AssertionError(f"ended early: {[(side.said, side.process.returncode) for side in sides]}")
            server.tell(client.address)
            client.tell(server.address)
            for side in sides:
                side.go_on()
        for side in sides:
            if side.step != step:
                raise AssertionError(f"not at {step}: {side.said}")
        return sides

    def finish(self, side):
        """Lets a side whose peer is dead go on from its step to its end."""
        side.tell()
        side.go_on()
        if side.end is None and side.process.poll() is None:
            lid, qpn = (int(word) for word in side.address.split())
            side.tell(f"{lid} {qpn + (1 << 14)}")
            side.go_on()
        return side.end

    def play(self, options=()):
        """Plays a whole game without a fault. Returns how both ended."""
        server, client = self.start_pair(None, options)
        for side in (server, client):
            side.go_on()
        server.tell(client.address)
        client.tell(server.address)
        for side in (server, client):
            side.go_on()
        ends = [side.end for side in (server, client)]
        self.clear()
        return ends

    def daemon_pid(self):
        lock = pathlib.Path(self.device.environment["VERBENA_RUNTIME_DIR"], "daemon.lock")
        return int(lock.read_text())

    def daemon_descriptors(self):
        """Returns how many descriptors the daemon has."""
        folder = pathlib.Path(f"/proc/{self.daemon_pid()}/fd")
        return len(list(folder.iterdir()))

    def contexts(self):
        done = self.device.control("status", "--json")
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return json.loads(done.stdout)["devices"][0]["contexts"]

    def wait_until(self, condition, what):
        deadline = time.monotonic() + LIMIT
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(what)
            time.sleep(0.02)


def status_of(end):
    """Returns the status of the error completion with which a program ended, or None."""
    found = re.fullmatch(r"status (\d+)", end or "")
    return int(found[1]) if found else None
