# SPDX-License-Identifier: BSD-2-Clause
"""Runs programs of librdmacm in numbers, and kills them at every step: rdma_program.cpp on a real emulator.

    programs_test.py BIN PROGRAM PERSONA [CYCLES]     PERSONA: ib or roce; CYCLES: connections one after the other
"""

import os
import pathlib
import random
import sys
import unittest

from rdma_processes import EmulatorTest

PORT = 7471


def resources(pid):
    """Returns the kilobytes of the process's own memory (shared rings fill bit by bit) and its open descriptors."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]), len(os.listdir(f"/proc/{pid}/fd"))


class ProgramsTest(EmulatorTest):
    def serve(self, *step):
        server = self.start(PROGRAM, "serve", PORT, *step)
        server.expect("listening")
        return server

    def connect(self, count, at_once=1, *how):
        return self.start(PROGRAM, "connect", "127.0.0.1", PORT, count, at_once, *how)

    def assert_serves(self):
        self.assertEqual(self.connect(1).wait(), (0, "done"))

    # --- numbers ------------------------------------------------------------------------------

    def test_cycles_leave_nothing_behind(self):
        server = self.serve()
        # How many connections are in timewait at once depends on the machine's speed, so the first two runs have 1000
        # at once. The next cycles use up the memory that these runs have left free.
        for count, at_once in ((1000, 1000), (1000, 1000), (CYCLES, 10)):
            self.assertEqual(self.connect(count, at_once).wait(), (0, "done"))
        before = resources(self.daemon.pid), resources(server.process.pid)
        self.assertEqual(self.connect(CYCLES, 10).wait(), (0, "done"))
        after = resources(self.daemon.pid), resources(server.process.pid)
        for name, (memory, files), (later, later_files) in zip(("emulator", "server"), before, after):
            # A client that has just ended may still be there, and some connections to the emulator are kept.
            self.assertLess(later_files, files + 20, name)
            # A leak of a hundred bytes per connection would show. With fewer than a thousand connections it would not.
            if CYCLES >= 1000:
                self.assertLess(later - memory, max(1024, CYCLES * 100 // 1024), name)

    def test_a_thousand_connections_stand_at_once(self):
        self.serve()
        self.assertEqual(self.connect(1000, 1000).wait(), (0, "done"))

    def test_a_hundred_processes_connect_at_once(self):
        server = self.serve()
        clients = [self.connect(1) for _ in range(100)]
        self.assertEqual([client.wait() for client in clients], [(0, "done")] * 100)
        self.assertIsNone(server.process.poll())

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to change the root directory or the user")
    def test_programs_that_have_changed_their_root_or_their_user(self):
        for change in ("chroot", "setuid"):
            with self.subTest(change):
                server = self.serve(change)
                self.assertEqual(self.connect(1).wait(), (0, "done"))
                clients = [self.connect(40, 10, change) for _ in range(2)]
                ends = [client.wait() for client in clients]
                server.kill()
                self.assertEqual(ends, [(0, "done")] * 2)

    # --- sudden death -------------------------------------------------------------------------

    def test_a_client_is_killed_at_every_step(self):
        server = self.serve()
        for step in ("address", "route", "connect", "established", "message", "disconnect"):
            with self.subTest(step):
                client = self.start(PROGRAM, "stop", "127.0.0.1", PORT, step)
                client.expect("stopped")
                client.kill()
                self.assert_serves()
                self.assertIsNone(server.process.poll(), server.lines())

    def test_a_server_is_killed_at_every_step(self):
        # After its acceptance the client may be established already, or not yet.
        for step, end in (("request", "RDMA_CM_EVENT_REJECTED"), ("accept", "RDMA_CM_EVENT_REJECTED"),
                          ("established", "(disconnected|RDMA_CM_EVENT_CONNECT_ERROR|RDMA_CM_EVENT_REJECTED)")):
            with self.subTest(step):
                server = self.serve(step)
                client = self.connect(1)
                server.expect("stopped")
                server.kill()
                code, last = client.wait()
                self.assertEqual(code, 1)
                self.assertRegex(last, end)

    def test_a_server_dies_among_many_connections(self):
        server = self.serve()
        client = self.start(PROGRAM, "stop", "127.0.0.1", PORT, "message")
        client.expect("stopped")
        many = self.connect(100000, 500, "aloud")
        # The program dies at a random moment, somewhere between the establishment and the end of many connections.
        seed = int(os.environ.get("VERBENA_SEED", random.randrange(1 << 32)))
        moment = random.Random(seed).randrange(1, 2500)
        print(f"VERBENA_SEED={seed}: {moment} connections", flush=True)
        many.expect(f"established {moment}")
        server.kill()
        code, last = many.wait()
        self.assertEqual(code, 1, last)
        client.kill()
        self.serve()
        self.assert_serves()

    def test_a_listener_that_never_accepts(self):
        server = self.serve("request")
        first, second = self.connect(1), self.connect(1)
        server.expect("stopped")
        # A client that gives up leaves the others waiting.
        first.kill()
        self.assertIsNone(second.process.poll())
        server.kill()
        self.assertIn("RDMA_CM_EVENT_REJECTED", second.wait()[1])


if __name__ == "__main__":
    EmulatorTest.BIN, PROGRAM, EmulatorTest.PERSONA = sys.argv[1:4]
    CYCLES = int(sys.argv[4]) if len(sys.argv) > 4 else 1000
    EmulatorTest.LIMIT = max(EmulatorTest.LIMIT, CYCLES // 100)
    unittest.main(argv=[sys.argv[0]], verbosity=2)
