# SPDX-License-Identifier: BSD-2-Clause
"""What `verbena waits` says of programs that hang in librdmacm, and of queue pairs that it has moved.

    hanging_test.py BIN HANGING_PROGRAM RDMA_PROGRAM
"""

import json
import os
import re
import subprocess
import sys
import time
import unittest

from rdma_processes import EmulatorTest

DESTROYS = "rdma_destroy_id waits: 1 event of the ID was read and is not acknowledged (rdma_ack_cm_event)"


class Hanging(EmulatorTest):
    def waits(self):
        done = subprocess.run([os.path.join(self.BIN, "verbena"), "waits", "--json"], text=True, capture_output=True,
                              timeout=self.LIMIT, check=True)
        return [wait["text"] for wait in json.loads(done.stdout)["waits"]]

    def until(self, condition):
        end = time.monotonic() + self.LIMIT
        while not condition(said := self.waits()):
            self.assertLess(time.monotonic(), end, said)

    def test_an_event_that_is_not_acknowledged(self):
        program = self.start(HANGING, self.address())
        program.expect("destroys")
        self.until(lambda said: DESTROYS in said)
        program.go_on()
        program.expect("destroyed")
        for _ in range(3):
            self.assertNotIn("rdma_destroy_id", "".join(self.waits()))
        program.go_on()
        self.assertEqual(program.wait(), (0, "done"))

    def test_a_queue_pair_that_librdmacm_has_moved(self):
        server = self.start(RDMA, "serve", 7174)
        server.expect("listening")
        client = self.start(RDMA, "stop", self.address(), 7174, "disconnect")
        client.expect("stopped")
        moved = re.compile(r"RC QP 0x\w{6} is in ERR: ibv_modify_qp moved it to the error state, as librdmacm does when a "
                           r"connection ends or is not made \(rdma_disconnect\)")
        self.until(lambda said: any(map(moved.fullmatch, said)))


if __name__ == "__main__":
    EmulatorTest.BIN, HANGING, RDMA = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[4:]])
