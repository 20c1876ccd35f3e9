# SPDX-License-Identifier: BSD-2-Clause
"""Gives each test of /dev/infiniband/rdma_cm a real emulator of its own, with the preload library loaded.

    PROGRAM BIN LIBRARY [FIRST]     FIRST: what must be loaded before (a sanitizer's runtime)
"""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from rdma_cm_channel import *

LIMIT = 60


class RdmaCmCase(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="verbena-cm-")
        os.chmod(self.dir, 0o700)
        os.environ["VERBENA_RUNTIME_DIR"] = self.dir
        reader, writer = os.pipe()
        env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        self.daemon = subprocess.Popen(
            [binary("verbenad"), "--runtime-dir", self.dir, "--ready-fd", str(writer),
             # The subnet differs from that of the user's own emulator.
             "--fabric", "127.%d.%d.0/24" % (130 + os.getpid() // 256 % 100, os.getpid() % 256)],
            pass_fds=[writer], env=env)
        os.close(writer)
        with os.fdopen(reader) as ready:
            self.assertEqual(ready.readline(), "ready\n")
        # Every wait of a test is for something that must come, so the alarm ends it.
        signal.signal(signal.SIGALRM, self.too_long)
        signal.alarm(LIMIT)
        self.channels = []

    def tearDown(self):
        signal.alarm(0)
        for channel in self.channels:
            try:
                channel.close()
            except OSError:
                pass
        self.daemon.terminate()
        self.daemon.wait(20)
        shutil.rmtree(self.dir, ignore_errors=True)

    @staticmethod
    def too_long(*_):
        raise TimeoutError("waited in vain")

    def channel(self, flags=0):
        self.channels.append(Channel(flags))
        return self.channels[-1]

    def connected(self, server, client, qpn=0x4001):
        """Returns both IDs of a new connection, established."""
        active = client.start_connecting(10, qpn)
        passive = server.expect(CONNECT_REQUEST).id
        server.accept(passive, 20, qpn + 0x4000)
        client.expect(CONNECT_RESPONSE)
        client.confirm(active)
        server.expect(ESTABLISHED)
        return active, passive

    def requested_by_datagram(self, server, client, qpn):
        """Returns the listener and both IDs of a UD request (SIDR) that the server has not answered."""
        listener = server.create(1, PS_UDP)
        server.bind(listener, "0.0.0.0", 7174)
        server.listen(listener)
        active = client.create(10, PS_UDP)
        client.resolve_addr(active, "127.0.0.1", 7174)
        client.expect(ADDR_RESOLVED)
        client.resolve_route(active)
        client.expect(ROUTE_RESOLVED)
        client.connect(active, qpn)
        return listener, active, server.expect(CONNECT_REQUEST).id

    def until(self, condition):
        """Waits until the condition holds. The alarm ends a wait that takes too long."""
        while not condition():
            time.sleep(0.02)

    def is_readable(self, channel):
        return bool(select.select([channel.fd], [], [], 0)[0])


def binary(name):
    return os.path.join(sys.argv[1], name)


def run():
    library, first = sys.argv[2], sys.argv[3:4]
    if library not in os.environ.get("LD_PRELOAD", ""):
        os.environ["LD_PRELOAD"] = ":".join([*first, library])
        os.execv(sys.executable, [sys.executable, "-B", *sys.argv])
    unittest.main(module="__main__", argv=[sys.argv[0]], verbosity=2)
