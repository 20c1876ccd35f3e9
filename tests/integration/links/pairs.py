# SPDX-License-Identifier: BSD-2-Clause
"""Pairs of programs on an emulator of their own, for the tests of this folder."""

import json
import os
import random
import shutil
import subprocess
import tempfile
import time
import unittest

LIMIT = 30
BIN = None  # the folder of the programs


def listens(port, pid="self"):
    """Returns whether a process in the network namespace of `pid` listens on this TCP port, without connecting to it."""
    wanted = f":{int(port):04X}"
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}") as lines:
            for line in list(lines)[1:]:
                words = line.split()
                if words[3] == "0A" and words[1].endswith(wanted):
                    return True
    return False


class Pairs(unittest.TestCase):
    devices = []  # more options of `verbena up`

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="verbena-pairs-")
        cls.env = {k: v for k, v in os.environ.items()
                   if k not in ("LD_PRELOAD", "RDMAV_DRIVERS", "VERBENA_LOG", "VERBENA_LINK")}
        cls.env["VERBENA_RUNTIME_DIR"] = cls.dir + "/run"
        for _ in range(20):
            cls.fabric = f"127.{random.randrange(64, 250)}.{random.randrange(1, 250)}.0/24"
            up = cls.verbena("up", "--fabric", cls.fabric, *cls.devices)
            if up.returncode == 0:
                return
        raise RuntimeError(up.stderr)

    @classmethod
    def tearDownClass(cls):
        cls.verbena("down")
        shutil.rmtree(cls.dir, ignore_errors=True)

    def setUp(self):
        self.started = []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()

    @classmethod
    def verbena(cls, *words):
        return subprocess.run([BIN + "/verbena", *words], env=cls.env, capture_output=True,
                              text=True, timeout=LIMIT, check=False)

    def start(self, link, command, within=()):
        process = subprocess.Popen([*within, BIN + "/verbena", "run", "--", *command],
                                   env=dict(self.env, VERBENA_LINK=link),
                                   text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.started.append(process)
        return process

    def pair(self, link, *command, ends=((), ())):
        """Starts server and client of a program. `ends` has options for one side only."""
        port = random.randrange(20000, 32000)
        command = [*command, "-p", str(port)]
        server = self.start(link, [*command, *ends[0]])
        self.until(lambda: listens(port) or server.poll() is not None, "the server does not listen")
        return server, self.start(link, [*command, *ends[1], "127.0.0.1"])

    def end(self, processes):
        for process in processes:
            process.kill()
            process.communicate()

    def rping(self, link, *options, count, within=((), ())):
        """Runs both sides of rping. The client tries again until the server listens. The output decides: rping may exit
        with 255 after all went well, because its event thread may read a channel that its main thread has closed."""
        common = ["-p", str(random.randrange(20000, 32000)), "-C", str(count), *options]
        server = self.start(link, ["rping", "-s", *common], within=within[0])
        texts = []

        def passes():
            has_ended = server.poll() is not None
            client = self.start(link, ["rping", "-c", "-v", *common], within=within[1])
            texts.append(client.communicate(timeout=LIMIT)[0])
            if client.returncode in (0, 255) and texts[-1].count("ping data: ") == count and "mismatch" not in texts[-1]:
                return True
            self.assertFalse(has_ended, "the server has ended; the clients said:\n" + "\n".join(texts[-3:]))
            return False

        self.until(passes, "no client ended well")
        self.ends_well(server)

    def until(self, condition, what):
        """Waits until another process has done something that it does not announce."""
        end = time.monotonic() + LIMIT
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)

    def ends_well(self, *processes):
        texts = [p.communicate(timeout=LIMIT)[0] for p in processes]
        # Often the other side's output says why one side failed.
        for process in processes:
            self.assertEqual(process.returncode, 0, "\n".join(texts))
        return texts

    def device(self):
        done = self.verbena("status", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["devices"][0]
