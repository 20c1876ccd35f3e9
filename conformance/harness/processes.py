# SPDX-License-Identifier: BSD-2-Clause
"""Starts, awaits and ends the programs of a case.

Owner: harness/case.py. Promise: no function here waits longer than its deadline, and the end of a `with` block ends its
program together with the program's children (each program has a session of its own).
"""

import os
import pathlib
import random
import re
import select
import signal
import socket
import subprocess
import time

_POLL_MS = 10  # milliseconds between two looks at what has no descriptor to wait on
_TCP_LISTEN = "0A"  # state column of /proc/net/tcp


class Program:
    """A running program whose output goes to a file."""

    def __init__(self, command, log, environment, folder):
        self.command = command
        self.log = pathlib.Path(log)
        self._out = open(self.log, "wb")
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._out,
                                             stderr=subprocess.STDOUT, env=environment, cwd=folder,
                                             start_new_session=True)
        except OSError:
            self._out.close()
            raise
        self._pidfd = os.pidfd_open(self._process.pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    @property
    def pid(self):
        return self._process.pid

    def output(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait(self, deadline):
        """Returns the exit code, or None if the deadline (time.monotonic) came first."""
        self._pause(max(0, int((deadline - time.monotonic()) * 1000)))
        return self._process.poll()

    def wait_for(self, condition, deadline):
        """Returns True once `condition()` holds, False if the program ended or the deadline came first."""
        while True:
            if condition():
                return True
            if self._process.poll() is not None:
                return bool(condition())
            if time.monotonic() > deadline:
                return False
            self._pause(_POLL_MS)

    def wait_for_output(self, pattern, deadline):
        return self.wait_for(lambda: re.search(pattern, self.output(), re.MULTILINE), deadline)

    def end(self):
        """Ends the program and the rest of its session. Does nothing if they have ended."""
        for number, patience in ((signal.SIGTERM, 2.0), (signal.SIGKILL, 5.0)):
            if not self._session():
                break
            self._signal(number)
            deadline = time.monotonic() + patience
            while self._session() and time.monotonic() < deadline:
                self._pause(_POLL_MS)
                self._process.poll()
        self._process.wait()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
            self._out.close()

    def _pause(self, milliseconds):
        """Waits. Returns early if the program ends, so that a wait does not outlive the program."""
        poller = select.poll()
        if self._process.poll() is None:
            poller.register(self._pidfd, select.POLLIN)
        poller.poll(milliseconds if self._process.returncode is None else min(milliseconds, _POLL_MS))

    def _session(self):
        """Returns the processes of the session that are still alive (a zombie is not)."""
        alive = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                fields = pathlib.Path("/proc", entry, "stat").read_text().rsplit(")", 1)[1].split()
            except (OSError, IndexError):
                continue
            if fields[0] != "Z" and int(fields[3]) == self.pid:
                alive.append(int(entry))
        return alive

    def _signal(self, number):
        for pid in self._session():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass


def is_listening(port, tables=("/proc/net/tcp", "/proc/net/tcp6")):
    """Returns whether a TCP socket of this network namespace listens on the port."""
    wanted = f"{port:04X}"
    for table in tables:
        try:
            lines = pathlib.Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[1].rsplit(":", 1)[1] == wanted and fields[3] == _TCP_LISTEN:
                return True
    return False


_given = set()
_PORTS = (10000, 32768)


def fresh_port():
    """Returns a TCP port that is free, that this run has not handed out before, and that neither the system nor the
    device assigns to clients: a client may come before its server."""
    while True:
        port = random.randrange(*_PORTS)
        if port in _given:
            continue
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("::", port))
            except OSError:
                continue
        _given.add(port)
        return port
