# SPDX-License-Identifier: BSD-2-Clause
"""Reads sizes, and posts a datagram to itself of each. Prints whether it was posted."""

import sys

from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.enums import IBV_QPT_UD
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

ROW = 3  # RoCEv2 by the interface's IPv4 address

context = Context(name="verbena0")
domain = PD(context)
queue = CQ(context, 100)
caps = QPCap(max_send_wr=100, max_recv_wr=1, max_send_sge=1, max_recv_sge=1)
pair = QP(domain, QPInitAttr(qp_type=IBV_QPT_UD, scq=queue, rcq=queue, cap=caps), QPAttr())
memory = MR(domain, 8192, 0)
route = GlobalRoute(dgid=context.query_gid(1, ROW), sgid_index=ROW)
handle = AH(domain, attr=AHAttr(port_num=1, is_global=1, gr=route))
for line in sys.stdin:
    request = SendWR(sg=[SGE(memory.buf, int(line), memory.lkey)], num_sge=1)
    request.set_wr_ud(handle, pair.qp_num, 0)
    try:
        pair.post_send(request)
        print("posted", flush=True)
    except PyverbsRDMAError as error:
        print(error.error_code, flush=True)
    queue.poll(10)
