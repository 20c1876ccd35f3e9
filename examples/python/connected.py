# SPDX-License-Identifier: BSD-2-Clause
"""Two RC queue pairs of one process, connected to each other: the code under test."""

import contextlib
import time

from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR
from pyverbs import enums as e

PORT = 1
SIZE = 4096


class End:
    """A queue pair with its completion queue and one buffer."""

    def __init__(self, context):
        self.pd = PD(context)
        self.cq = CQ(context, 64)
        access = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
        self.mr = MR(self.pd, SIZE, access)
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=QPCap(16, 16, 1, 1)))
        self.context = context

    def connect(self, peer, retries=7):
        port = self.context.query_port(PORT)
        route = GlobalRoute(dgid=self.context.query_gid(PORT, 0), sgid_index=0)
        attributes = QPAttr(port_num=PORT)
        attributes.qp_access_flags = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
        attributes.dest_qp_num = peer.qp.qp_num
        attributes.path_mtu = port.active_mtu
        attributes.ah_attr = AHAttr(dlid=port.lid, port_num=PORT, is_global=1, gr=route)
        attributes.timeout = 10  # 4 ms
        attributes.retry_cnt = retries
        attributes.rnr_retry = 7
        attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1
        self.qp.to_rts(attributes)

    def receive(self):
        self.qp.post_recv(RecvWR(sg=[self._buffer(SIZE)], num_sge=1))

    def send(self, data):
        self.mr.write(data, len(data))
        self.qp.post_send(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[self._buffer(len(data))]))

    def _buffer(self, length):
        return SGE(self.mr.buf, length, self.mr.lkey)

    def completion(self, limit=30):
        """Returns the status of the next completion."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            count, found = self.cq.poll()
            if count:
                return found[0].status
        raise TimeoutError(f"no completion within {limit} s")

    def close(self):
        for part in (self.qp, self.mr, self.cq, self.pd):
            part.close()


@contextlib.contextmanager
def connected(name="verbena0", retries=7):
    context = Context(name=name)
    ends = End(context), End(context)
    for end, peer in (ends, reversed(ends)):
        end.connect(peer, retries)
    try:
        yield ends
    finally:
        for end in ends:
            end.close()
        context.close()
