# SPDX-License-Identifier: BSD-2-Clause
"""Runs one case on one device and judges it.

Owner: conformance/run. Promise: `run_case` returns a Verdict and leaves no process behind; it raises nothing that a
program's behaviour could cause. A case passes only if all of its promises hold, the packet counter among them.
"""

import dataclasses
import pathlib
import re
import shlex
import shutil
import time

from . import device as devices
from . import processes

_CM_PATIENCE = 5.0  # seconds during which a client may find that its rdma_cm server does not listen yet
# For so many seconds a process that is about to be ended may still report what it has sent.
_SECONDS_TO_TELL = 5.0


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The result of a case; `reason` is empty if the case passed."""

    reason: str
    seconds: float
    packets: int
    folder: pathlib.Path

    @property
    def passed(self):
        return not self.reason


class Failure(Exception):
    """Says in words which promise did not hold."""


class _Run:
    """One execution of a case: its folder, its port, its deadline."""

    def __init__(self, case, device, persona, folder):
        self.case = case
        self.device = device
        self.folder = pathlib.Path(folder)
        self._sent_before = device.sent_packets()
        self.deadline = time.monotonic() + case.timeout
        self.port = processes.fresh_port()
        roce = persona == "roce"
        self._words = {
            "device": device.name, "host": "127.0.0.1", "addr": device.address, "port": str(self.port),
            "gid": device.gid, "g": f"-g {device.gid}" if roce else "", "x": f"-x {device.gid}" if roce else "", "tmp": str(self.folder),
            "here": str(pathlib.Path(__file__).resolve().parent.parent)}

    def packets(self):
        """Returns how many packets the device has sent for this case."""
        return self.device.sent_packets() - self._sent_before

    def execute(self):
        self._scripts("before", self.case.before)
        if self.case.during:
            self._watch()
        elif self.case.server:
            self._pair()
        else:
            with self._start(self.case.client, "client") as client:
                self._judge_client(client, self._ended(client, "client"))
        self._scripts("after", self.case.after)

    def _command(self, text):
        filled = re.sub(r"\{(\w+)\}", lambda found: self._words.get(found[1], found[0]), text)
        return shlex.split(filled)

    def _matches(self, pattern, program):
        """Searches what the program printed for a pattern of the manifest, after filling in the pattern's words."""
        return re.search(self._pattern(pattern), program.output(), re.MULTILINE)

    def _pattern(self, pattern):
        return re.sub(r"\{(\w+)\}", lambda found: re.escape(self._words[found[1]]) if found[1] in self._words
                      else found[0], pattern)

    def _start(self, text, role):
        words = self._command(text)
        if words[0] == "verbena":
            return self._program(self.device.control(words[1:]), role)
        if shutil.which(words[0], path=self.device.environment["PATH"]) is None:
            raise Failure(f"{words[0]} is not installed (scripts/deps test)")
        return self._program(self.device.wrap(words), role)

    def _program(self, command, role):
        return processes.Program(command, self.folder / f"{role}.log", self.device.environment, self.folder)

    def _ended(self, program, role):
        code = program.wait(self.deadline)
        if code is None:
            raise Failure(f"the {role} did not end within {self.case.timeout:g} s")
        return code

    def _scripts(self, when, texts):
        for number, text in enumerate(texts):
            with self._start(text, f"{when}{number}") as program:
                code = self._ended(program, f"{when} command")
                if code != 0:
                    raise Failure(f"'{text}' ended with {code}")

    def _watch(self):
        """Runs a program that prints what happens, until it has printed what the case waits for, and ends it."""
        ready, success = self._pattern(self.case.ready.removeprefix("output:")), self._pattern(self.case.success)
        with self._start(self.case.client, "client") as client:
            if not client.wait_for_output(ready, self.deadline):
                raise Failure(f"the client never said '{ready}'")
            self._scripts("during", self.case.during)
            if not client.wait_for_output(success, self.deadline):
                raise Failure(f"the client never said '{success}'")

    def _pair(self):
        with self._start(self.case.server, "server") as server:
            self._await_server(server)
            self._client_against(server)
            if self.case.server_ends:
                code = self._ended(server, "server")
                if code != 0:
                    raise Failure(f"the server ended with {code}")
            else:
                # A killed process loses the counts that its thread has not reported yet, so it gets time for that.
                soon = min(self.deadline, time.monotonic() + _SECONDS_TO_TELL)
                server.wait_for(lambda: self.packets() >= self.case.packets, soon)
            if self.case.server_success and not self._matches(self.case.server_success, server):
                raise Failure(f"the server never said '{self.case.server_success}'")
            self._forbid(server, "server")

    def _await_server(self, server):
        ready = self.case.ready
        if ready == "tcp":
            came = server.wait_for(lambda: processes.is_listening(self.port), self.deadline)
        elif ready == "cm":
            came = True  # the listener cannot be seen outside the device, so the client tries again instead
        else:
            came = server.wait_for_output(self._pattern(ready.removeprefix("output:")), self.deadline)
        if not came:
            code = server.wait(time.monotonic())
            raise Failure("the server does not listen" if code is None else
                          f"the server ended with {code} before it listened")

    def _client_against(self, server):
        patience = time.monotonic() + _CM_PATIENCE
        while True:
            with self._start(self.case.client, "client") as client:
                code = self._ended(client, "client")
                # cmtime ends with 0 even if the connection was refused.
                too_early = (self.case.ready == "cm" and self.case.retry and code >= 0
                             and time.monotonic() < patience and server.wait(time.monotonic()) is None
                             and self._matches(self.case.retry, client))
                if not too_early:
                    self._judge_client(client, code)
                    return

    def _judge_client(self, client, code):
        output = client.output()
        if self.case.outcome == "refused":
            if code == 0:
                raise Failure("the client ended with 0, it had to refuse")
            if code < 0:
                raise Failure(f"the client was ended by signal {-code}, it had to refuse")
            if self.case.text not in output:
                raise Failure(f"the client did not say '{self.case.text}'")
            return
        if code != 0:
            raise Failure(f"the client ended with {code}" if code > 0 else f"the client died of signal {-code}")
        if self.case.success and not self._matches(self.case.success, client):
            raise Failure(f"the client never said '{self.case.success}'")
        if self.case.value:
            pattern = self._pattern(self.case.value)
            _judge_values(re.finditer(pattern, output, re.MULTILINE), pattern)
        self._forbid(client, "client")

    def _forbid(self, program, role):
        found = self.case.forbid and self._matches(self.case.forbid, program)
        if found:
            raise Failure(f"the {role} said '{found[0]}'")


def _judge_values(matches, pattern):
    values = [float(text) for match in matches for text in match.groups() if text is not None]
    if not values:
        raise Failure(f"no value in the output ({pattern})")
    if min(values) <= 0:
        raise Failure(f"a value is not above 0: {values}")


def run_case(case, device, persona, folder):
    """Runs `case` in `folder`, which it makes writable for the device's user."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    started, packets, reason = time.monotonic(), 0, ""
    try:
        run = _Run(case, device, persona, folder)
        run.execute()
        packets = run.packets()
        if case.outcome == "pass" and packets < case.packets:
            reason = f"the device sent {packets} packets, at least {case.packets} were expected"
    except (Failure, devices.DeviceError, OSError) as error:
        reason = str(error)
    return Verdict(reason, time.monotonic() - started, packets, folder)
