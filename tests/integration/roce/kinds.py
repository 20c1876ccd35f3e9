# SPDX-License-Identifier: BSD-2-Clause
"""Opens two devices of one emulator, "roce" and "ib": neither accepts the other's GID as a peer's."""

import sys

from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.enums import IBV_ACCESS_REMOTE_WRITE, IBV_MTU_1024, IBV_QPT_RC
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr


class End:
    def __init__(self, name, row):
        self.context = Context(name=name)
        self.row = row
        self.gid = self.context.query_gid(1, row)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 4)

    def connect(self, gid):
        """Brings a queue pair to RTR, with that GID as the peer's."""
        init = QPInitAttr(qp_type=IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=QPCap(1, 1))
        qp = QP(self.pd, init, QPAttr(port_num=1))
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE
        qp.to_init(attr)
        attr.path_mtu = IBV_MTU_1024
        attr.dest_qp_num = qp.qp_num
        attr.ah_attr = AHAttr(is_global=1, port_num=1, gr=GlobalRoute(dgid=gid, sgid_index=self.row))
        qp.to_rtr(attr)


def refuses(end, gid):
    try:
        end.connect(gid)
    except PyverbsRDMAError as error:
        return "Errno: 22" in str(error)
    return False


roce, ib = End("roce", 3), End("ib", 0)
roce.connect(roce.gid)
ib.connect(ib.gid)
sys.exit(0 if refuses(roce, ib.gid) and refuses(ib, roce.gid) and refuses(ib, End("roce", 0).gid) else 1)
