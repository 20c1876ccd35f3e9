# SPDX-License-Identifier: BSD-2-Clause
"""Runs programs of perftest and rdma-core over each link, with a plugin that is built with ThreadSanitizer: the threads
of the application and of the plugin must not race. Programs are left out that send from memory into which they receive
at the same time (ibv_srq_pingpong does, with its 16 queue pairs): with an adapter they race as well.

    threads_test.py BIN COMPILER
"""

import pathlib
import subprocess
import sys
import unittest

import pairs
from pairs import Pairs

COMPILER = None
# In a program that was built without it, the sanitizer's runtime must be the first library.
WRAPPED = 'LD_PRELOAD="$0 $LD_PRELOAD" exec "$@"'


class Threads(Pairs):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        said = subprocess.run([COMPILER, "-print-file-name=libtsan.so"], check=True, capture_output=True, text=True)
        cls.runtime = str(pathlib.Path(said.stdout.strip()).resolve(strict=True))
        cls.env["TSAN_OPTIONS"] = "exitcode=66"

    def start(self, link, command):
        return super().start(link, ["sh", "-c", WRAPPED, self.runtime, *command])

    def test_the_runtime_is_there(self):
        """Without the runtime no race would be found."""
        process = self.start("udp", ["cat", "/proc/self/maps"])
        self.assertIn("libtsan", self.ends_well(process)[0])

    def test_posting_and_receiving(self):
        for link in ("udp", "auto"):
            for command in (["ib_send_lat", "-F", "-s", "8", "-n", "2000"],
                            ["ib_send_lat", "-F", "-s", "8", "-n", "1000", "-e"],
                            ["ib_write_lat", "-F", "-s", "8", "-n", "1000"],
                            ["ib_write_bw", "-F", "-s", "8", "-n", "5000", "-q", "4"],
                            ["ib_send_bw", "-F", "-s", "4096", "-n", "2000", "-q", "2", "-b"],
                            ["ib_read_bw", "-F", "-s", "65536", "-n", "500"],
                            ["ibv_rc_pingpong", "-n", "500", "-e"]):
                with self.subTest(link=link, command=command):
                    self.ends_well(*self.pair(link, *command))


if __name__ == "__main__":
    pairs.BIN = sys.argv.pop(1)
    COMPILER = sys.argv.pop(1)
    unittest.main()
