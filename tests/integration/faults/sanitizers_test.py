#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Programs that are built with a sanitizer run with the plugin and the preload library as they are, without false
alarms. They need no options except those of provider/preload/README.md.

    sanitizers_test.py PREFIX FOLDER_OF_PROGRAMS SUPPRESSIONS
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

from pingpong import Game

HERE = pathlib.Path(__file__).resolve().parent
PREFIX = PROGRAMS = SUPPRESSIONS = None


class Sanitizers(unittest.TestCase):
    def play(self, program, *options, **environment):
        with Game(PREFIX, str(program)) as game:
            game.device.environment.update(environment)
            server, client = sides = game.start_pair(None, options)
            for side in sides:
                side.go_on()
            self.assertTrue(server.address and client.address, [side.said for side in sides])
            server.tell(client.address)
            client.tell(server.address)
            for side in sides:
                side.go_on()
                self.assertEqual(side.end, "ok", "\n".join(side.said))
                self.assertEqual(side.process.returncode, 0, "\n".join(side.said))
                self.assertEqual(len(side.said), 2, "\n".join(side.said))

    def test_address_of_gcc(self):
        for options in (["-e"], ["-n", "10"], ["-e", "-t"]):
            self.play(PROGRAMS / "steps_address", *options)

    def test_thread_of_gcc(self):
        for options in (["-e"], ["-n", "10"], ["-e", "-t"], ["-e", "-t", "-x"]):
            self.play(PROGRAMS / "steps_thread", *options)

    def test_thread_of_clang_as_documented(self):
        program = self.clang("thread")
        for options in (["-e", "-t"], ["-e", "-t", "-x"]):
            self.play(program, *options, TSAN_OPTIONS=f"suppressions={SUPPRESSIONS}")

    def test_address_of_clang(self):
        self.play(self.clang("address"), "-e", "-t")

    def clang(self, sanitizer):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        program = pathlib.Path(folder, "steps")
        subprocess.run(["clang", f"-fsanitize={sanitizer}", "-O1", "-g", "-o", program, HERE / "steps.c",
                        HERE / "steps_setup.c", "-libverbs", "-lpthread"], check=True)
        return program

    def test_the_program_stays_the_master_of_its_options(self):
        """Options that a user sets are still in force."""
        with Game(PREFIX, str(PROGRAMS / "steps_address")) as game:
            game.device.environment["ASAN_OPTIONS"] = "help=1"
            done = game.device.run([game.program])
            self.assertIn("Available flags for AddressSanitizer", done.stderr)


if __name__ == "__main__":
    PREFIX = sys.argv[1]
    PROGRAMS, SUPPRESSIONS = (pathlib.Path(word).resolve() for word in sys.argv[2:4])
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[4:]])
