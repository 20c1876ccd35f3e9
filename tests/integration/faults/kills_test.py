#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A process or the emulator is killed at each step of a ping-pong. The survivors end in order, and nothing is left.

    kills_test.py PREFIX STEPS [unittest arguments]
    kills_test.py PREFIX STEPS --loops N [--seed S]     random victims at random moments, for a long run
"""

import argparse
import os
import pathlib
import random
import signal
import sys
import time
import unittest

from pingpong import FINISHED, STEPS, Game, status_of

PREFIX = PROGRAM = None
RETRY_EXCEEDED = 12  # IBV_WC_RETRY_EXC_ERR; 5 below is IBV_WC_WR_FLUSH_ERR, or EIO
MODES = (["-e"], [], ["-e", "-t"])  # asleep on a channel, polling, in two threads
LINKS = ("udp", "shm")


class Kills(unittest.TestCase):
    def setUp(self):
        self.game = self.enterContext(Game(PREFIX, PROGRAM))
        self.addCleanup(self.game.clear)
        self.daemon = self.game.daemon_pid()

    def nothing_is_left(self):
        self.assertEqual(self.game.daemon_pid(), self.daemon, "the emulator has died")
        self.game.wait_until(lambda: not self.game.contexts(), "a dead process still has its slot")
        self.assertEqual(self.game.play(["-e"]), ["ok", "ok"])

    def kill_side(self, victim):
        # The emulator keeps sockets of slots for ever, and each game uses two slots.
        most = self.game.daemon_descriptors() + 4
        for number, step in enumerate(STEPS):
            with self.subTest(step=step):
                self.game.device.environment["VERBENA_LINK"] = LINKS[(number + victim) % len(LINKS)]
                sides = self.game.bring_to(step, MODES[number % len(MODES)])
                sides[victim].kill()
                survivor = sides[1 - victim]
                end = self.game.finish(survivor)
                if step in FINISHED:
                    self.assertEqual(end, "ok", survivor.said)
                else:
                    self.assertEqual(status_of(end), RETRY_EXCEEDED, survivor.said)
                self.assertEqual(survivor.process.returncode, 0)
                self.game.clear()
                self.nothing_is_left()
        self.game.wait_until(lambda: self.game.daemon_descriptors() <= most, "the emulator keeps descriptors")

    def test_server(self):
        self.kill_side(0)

    def test_client(self):
        self.kill_side(1)


class DaemonKills(unittest.TestCase):
    def test_daemon(self):
        for number, step in enumerate(STEPS):
            with self.subTest(step=step), Game(PREFIX, PROGRAM) as game:
                game.device.environment["VERBENA_LINK"] = LINKS[number % len(LINKS)]
                sides = game.bring_to(step, MODES[number % len(MODES)])
                os.kill(game.daemon_pid(), signal.SIGKILL)
                for side in sides:
                    end = game.finish(side)
                    self.assertEqual(side.process.returncode, 0, side.said)
                    if step in FINISHED:
                        self.assertEqual(end, "ok", side.said)
                    elif step == "start":
                        self.assertRegex(end, "^refused ibv_(get_device_list|open_device) ", side.said)
                    else:
                        self.assertRegex(end, "^(fatal|status 5|refused ibv_.* 5)$", side.said)
                game.clear()
                again = game.device.control("up", "--fabric", game.device.fabric)
                self.assertEqual(again.returncode, 0, again.stderr)
                self.assertEqual(game.play(["-e"]), ["ok", "ok"])


def random_kills(loops, seed):
    """Kills random processes at random moments. A survivor ends by itself and never with wrong data."""
    chance = random.Random(seed)
    print(f"seed {seed}")
    game = Game(PREFIX, PROGRAM).__enter__()
    try:
        for loop in range(loops):
            victim = chance.choice(("server", "client", "daemon"))
            options = [*chance.choice(MODES), "-n", str(chance.choice((100, 10_000, 1_000_000)))]
            game.device.environment["VERBENA_LINK"] = link = chance.choice(LINKS)
            server, client = sides = game.start_pair(None, options)
            for side in sides:
                side.go_on()
            server.tell(client.address)
            client.tell(server.address)
            time.sleep(chance.expovariate(30))
            if victim == "daemon":
                os.kill(game.daemon_pid(), signal.SIGKILL)
                survivors = sides
            else:
                survivors = [sides[victim == "server"]]
                sides[victim == "client"].kill()
            for side in survivors:
                side.go_on()
                if not side.end or side.end.startswith("corrupt") or side.process.returncode != 0:
                    raise AssertionError(f"loop {loop}, {link}, {victim} killed: {side.said}, {side.process.returncode}")
            game.clear()
            if victim == "daemon":
                game.device.control("up", "--fabric", game.device.fabric)
            game.wait_until(lambda: not game.contexts(), "a dead process still has its slot")
        print(f"{loops} kills survived")
    finally:
        game.__exit__()


if __name__ == "__main__":
    PREFIX, PROGRAM = sys.argv[1], str(pathlib.Path(sys.argv[2]).resolve())
    if "--loops" in sys.argv:
        parser = argparse.ArgumentParser()
        parser.add_argument("--loops", type=int)
        parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
        asked = parser.parse_args(sys.argv[3:])
        random_kills(asked.loops * int(os.environ.get("VERBENA_LONG_FACTOR", "1")), asked.seed)
        sys.exit(0)
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
