# SPDX-License-Identifier: BSD-2-Clause
"""Opens two devices in one process, joins them by an RC connection and sends both ways.

    both.py DEVICE GID-INDEX DEVICE GID-INDEX
"""

import sys

from pyverbs import enums
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

SIZE = 5000  # two packets
ROUNDS = 100
PSN = 7


class End:
    """A queue pair on a device of its own."""

    def __init__(self, device, gid_index):
        self.name, self.gid_index = device, gid_index
        self.context = Context(name=device)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 16)
        self.mr = MR(self.pd, SIZE, enums.IBV_ACCESS_LOCAL_WRITE)
        cap = QPCap(max_send_wr=4, max_recv_wr=4)
        self.qp = QP(self.pd, QPInitAttr(qp_type=enums.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap), QPAttr())

    def sge(self):
        return [SGE(self.mr.buf, SIZE, self.mr.lkey)]

    def connect(self, other):
        route = GlobalRoute(dgid=other.context.query_gid(1, other.gid_index), sgid_index=self.gid_index)
        attr = QPAttr(port_num=1)
        attr.dest_qp_num = other.qp.qp_num
        attr.path_mtu = enums.IBV_MTU_4096
        attr.rq_psn = attr.sq_psn = PSN
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.min_rnr_timer = 12
        attr.timeout, attr.retry_cnt, attr.rnr_retry = 18, 7, 7
        attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
        self.qp.to_rts(attr)

    def send(self, text):
        self.mr.write(text, SIZE)
        self.qp.post_send(SendWR(num_sge=1, sg=self.sge(), opcode=enums.IBV_WR_SEND))

    def complete(self):
        """Returns the next completion, which must be a success."""
        while True:
            count, completions = self.cq.poll(1)
            if count:
                assert completions[0].status == enums.IBV_WC_SUCCESS, f"{self.name}: {completions[0]}"
                return


def exchange(sender, receiver, fill):
    receiver.qp.post_recv(RecvWR(num_sge=1, sg=receiver.sge()))
    sender.send(fill * SIZE)
    sender.complete()
    receiver.complete()
    assert receiver.mr.read(SIZE, 0) == fill.encode() * SIZE, f"{receiver.name} received something else"


def main():
    first, second = End(sys.argv[1], int(sys.argv[2])), End(sys.argv[3], int(sys.argv[4]))
    first.connect(second)
    second.connect(first)
    for i in range(ROUNDS):
        exchange(first, second, chr(ord("a") + i % 26))
        exchange(second, first, chr(ord("A") + i % 26))
    print(f"{ROUNDS} messages of {SIZE} bytes each way between {first.name} and {second.name}")


main()
