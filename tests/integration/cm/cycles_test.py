# SPDX-License-Identifier: BSD-2-Clause
"""Connections that are made one after the other leave nothing behind in the processes that make them.

    cycles_test.py BIN PROGRAM PERSONA CYCLES
"""

import pathlib
import sys
import unittest

from rdma_processes import EmulatorTest

PORT = 7476


def kilobytes(process):
    """Returns the process's own memory and what it shares with the emulator."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return sum(int(status.split(f"{word}:")[1].split()[0]) for word in ("RssAnon", "RssShmem"))


class CyclesTest(EmulatorTest):
    def test_no_process_grows(self):
        server = self.start(PROGRAM, "serve", PORT)
        server.expect("listening")
        client = self.start(PROGRAM, "connect", PORT, CYCLES)
        processes = {"client": client.process, "server": server.process, "emulator": self.daemon}
        # After the first cycles, all that the processes keep for later is there: rings, freed memory, pages of tables.
        client.expect_again("done")
        before = {name: kilobytes(process) for name, process in processes.items()}
        client.go_on()
        client.expect_again("done")
        after = {name: kilobytes(process) for name, process in processes.items()}
        grown = {name: after[name] - before[name] for name in processes}
        print(f"{CYCLES} cycles: {before} KiB, grown by {grown}", flush=True)
        for name, more in grown.items():
            self.assertLess(more, 512 + CYCLES // 50, f"{name}: {before[name]} KiB before, {after[name]} after")


if __name__ == "__main__":
    EmulatorTest.BIN, PROGRAM, EmulatorTest.PERSONA = sys.argv[1:4]
    CYCLES = int(sys.argv[4])
    EmulatorTest.LIMIT = max(EmulatorTest.LIMIT, CYCLES // 10)
    unittest.main(argv=[sys.argv[0]], verbosity=2)
