# SPDX-License-Identifier: BSD-2-Clause
"""The base of the tests of the kits: folders that are removed only after their emulators have ended."""

import os
import pathlib
import socket
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
LIMIT = 120


def emulators_of(folder):
    """Returns the processes of emulators whose runtime directory is below that folder."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes()
        except OSError:
            continue
        if b"verbenad\0" in words and os.fsencode(folder) in words:
            found.append(int(entry.parent.name))
    return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class KitCase(unittest.TestCase):
    def setUp(self):
        self.outer = self.new_folder()
        # What a stranger calls his checkout may have a blank.
        self.folder = self.outer / "my work"
        self.folder.mkdir()

    def new_folder(self):
        """Returns a folder with a short name, because paths of sockets below it must be short."""
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="vk-"))
        self.addCleanup(self.until, lambda: not emulators_of(folder), "an emulator has not ended")
        return pathlib.Path(folder)

    def until(self, condition, what):
        end = time.monotonic() + LIMIT
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)
