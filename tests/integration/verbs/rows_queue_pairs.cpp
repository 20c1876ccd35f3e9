// SPDX-License-Identifier: BSD-2-Clause
// Making queue pairs and changing their state. tests/unit/qp tests one by one which attributes a
// transition takes, and their bounds. The rows here check what passes through libibverbs.
#include <cerrno>

#include "refusals.hpp"

namespace refusals {
namespace {

int create(Case& c, void (*change)(Case&, ibv_qp_init_attr&)) {
  ibv_qp_init_attr a{};
  a.qp_type = IBV_QPT_RC;
  a.send_cq = a.recv_cq = c.w.cq;
  a.cap = {1, 1, 1, 1, 0};
  change(c, a);
  return made(ibv_create_qp(c.w.pd, &a));
}

template <typename Change>
int create_ex(Case& c, Change&& change) {
  ibv_qp_init_attr_ex a{};
  a.qp_type = IBV_QPT_RC;
  a.send_cq = a.recv_cq = c.w.cq;
  a.cap = {1, 1, 1, 1, 0};
  a.comp_mask = IBV_QP_INIT_ATTR_PD;
  a.pd = c.w.pd;
  change(c, a);
  return made(ibv_create_qp_ex(c.w.context, &a));
}

int create_for(Case& c, ibv_qp_type type, std::uint64_t operations) {
  return create_ex(c, [=](Case& k, auto& a) {
    a.qp_type = type;
    a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    a.send_ops_flags = operations;
  });
}

int open(Case& c, void (*change)(Case&, ibv_qp_open_attr&)) {
  ibv_qp_open_attr a{};
  a.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  a.qp_num = c.w.xrc_receive->qp_num;
  a.xrcd = c.w.xrcd;
  a.qp_type = IBV_QPT_XRC_RECV;
  change(c, a);
  return made(ibv_open_qp(c.w.context, &a));
}

// Modifies RESET to INIT, with one thing changed.
int modify(Case& c, ibv_qp* qp, int mask, void (*change)(Case&, ibv_qp_attr&)) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  change(c, a);
  return ibv_modify_qp(qp, &a, mask);
}
constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

// Modifies INIT to RTR, with one thing changed.
int to_rtr(Case& c, int without, void (*change)(Case&, ibv_qp_attr&)) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = 17;
  a.ah_attr = c.w.to_self();
  change(c, a);
  return ibv_modify_qp(c.w.init, &a, kToRtr & ~without);
}

int limit_rate(ibv_qp* qp, std::uint32_t mask) {
  ibv_qp_rate_limit_attr a{};
  a.rate_limit = 1000;
  a.comp_mask = mask;
  return ibv_modify_qp_rate_limit(qp, &a);
}

}  // namespace

std::vector<Row> queue_pair_rows() {
  return {
      {"ibv_create_qp", "attr NULL", EINVAL, "qp_init_attr is NULL",
       [](Case& c) { return made(ibv_create_qp(c.w.pd, nullptr)); }}  // namespace refusals
      ,
      {"ibv_create_qp", "send_cq NULL", EINVAL, "send_cq is NULL",
       [](Case& c) { return create(c, [](Case& k, auto& a) { a.send_cq = nullptr; }); }},
      {"ibv_create_qp", "recv_cq NULL", EINVAL, "recv_cq is NULL",
       [](Case& c) { return create(c, [](Case& k, auto& a) { a.recv_cq = nullptr; }); }},
      {"ibv_create_qp", "foreign send_cq", EINVAL, "send_cq belongs to another",
       [](Case& c) { return create(c, [](Case& k, auto& a) { a.send_cq = k.foreign.cq; }); }},
      {"ibv_create_qp", "foreign recv_cq", EINVAL, "recv_cq belongs to another",
       [](Case& c) { return create(c, [](Case& k, auto& a) { a.recv_cq = k.foreign.cq; }); }},
      {"ibv_create_qp", "foreign srq", EINVAL, "srq belongs to another",
       [](Case& c) { return create(c, [](Case& k, auto& a) { a.srq = k.foreign.srq; }); }},
      {"ibv_create_qp", "an XRC SRQ", EINVAL, "belongs to no queue pair",
       [](Case& c) { return create(c, [](Case& k, auto& a) { a.srq = k.w.xrc_srq; }); }},
      {"ibv_create_qp", "a tag-matching SRQ for UC", EINVAL, "only RC queue pairs",
       [](Case& c) {
         return create(c, [](Case& k, auto& a) {
           a.srq = k.w.tm_srq;
           a.qp_type = IBV_QPT_UC;
         });
       }},
      {"ibv_create_qp", "type 0", EOPNOTSUPP, "qp_type = 0",
       [](Case& c) {
         return create(c, [](Case& k, auto& a) { a.qp_type = static_cast<ibv_qp_type>(0); });
       }},
      {"ibv_create_qp", "raw packets", EOPNOTSUPP, "(IBV_QPT_RAW_PACKET) is not offered",
       [](Case& c) { return create(c, [](Case& k, auto& a) { a.qp_type = IBV_QPT_RAW_PACKET; }); }},
      {"ibv_create_qp", "a vendor's type", EOPNOTSUPP, "a vendor's own, as DC or SRD",
       [](Case& c) { return create(c, [](Case& k, auto& a) { a.qp_type = IBV_QPT_DRIVER; }); }},
      {"ibv_create_qp", "unknown type", EOPNOTSUPP, "qp_type = 77",
       [](Case& c) {
         return create(c, [](Case& k, auto& a) { a.qp_type = static_cast<ibv_qp_type>(77); });
       }},
      {"ibv_create_qp", "raw packets", EOPNOTSUPP, "is not offered",
       [](Case& c) { return create(c, [](Case& k, auto& a) { a.qp_type = IBV_QPT_RAW_PACKET; }); }},
      {"ibv_create_qp", "XRC_RECV without a domain", EINVAL, "needs an xrcd",
       [](Case& c) { return create(c, [](Case& k, auto& a) { a.qp_type = IBV_QPT_XRC_RECV; }); }},
      {"ibv_create_qp", "max_send_wr", EINVAL, "cap.max_send_wr",
       [](Case& c) { return create(c, [](Case& k, auto& a) { a.cap.max_send_wr = kMaxWr + 1; }); }},
      {"ibv_create_qp", "max_recv_wr", EINVAL, "cap.max_recv_wr",
       [](Case& c) { return create(c, [](Case& k, auto& a) { a.cap.max_recv_wr = ~0u; }); }},
      {"ibv_create_qp", "max_send_sge", EINVAL, "cap.max_send_sge",
       [](Case& c) {
         return create(c, [](Case& k, auto& a) { a.cap.max_send_sge = kMaxSge + 1; });
       }},
      {"ibv_create_qp", "max_recv_sge", EINVAL, "cap.max_recv_sge",
       [](Case& c) {
         return create(c, [](Case& k, auto& a) { a.cap.max_recv_sge = kMaxSge + 1; });
       }},
      {"ibv_create_qp", "max_inline_data", EINVAL, "cap.max_inline_data",
       [](Case& c) { return create(c, [](Case& k, auto& a) { a.cap.max_inline_data = 1025; }); }},
      {"ibv_create_qp_ex", "no pd", EINVAL, "pd is NULL",
       [](Case& c) {
         return create_ex(c, [](Case& k, auto& a) {
           a.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
           a.send_ops_flags = IBV_QP_EX_WITH_SEND;
         });
       }},
      {"ibv_create_qp_ex", "foreign pd", EINVAL, "pd belongs to another",
       [](Case& c) {
         return create_ex(c, [](Case& k, auto& a) {
           a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
           a.send_ops_flags = IBV_QP_EX_WITH_SEND;
           a.pd = k.foreign.pd;
         });
       }},
      {"ibv_create_qp_ex", "foreign xrcd", EINVAL, "xrcd belongs to another",
       [](Case& c) {
         return create_ex(c, [](Case& k, auto& a) {
           a.qp_type = IBV_QPT_XRC_RECV;
           a.comp_mask = IBV_QP_INIT_ATTR_XRCD;
           a.xrcd = k.foreign.xrcd;
         });
       }},
      {"ibv_create_qp_ex", "unknown comp_mask", EOPNOTSUPP, "comp_mask has bits",
       [](Case& c) { return create_ex(c, [](Case& k, auto& a) { a.comp_mask |= 1u << 20; }); }},
      {"ibv_create_qp_ex", "RSS", EOPNOTSUPP, "comp_mask has bits",
       [](Case& c) {
         return create_ex(c, [](Case& k, auto& a) { a.comp_mask |= IBV_QP_INIT_ATTR_RX_HASH; });
       }},
      {"ibv_create_qp_ex", "unknown create_flags", EOPNOTSUPP, "create_flags = 0x102",
       [](Case& c) {
         return create_ex(c, [](Case& k, auto& a) {
           a.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
           a.create_flags = 0x102;
         });
       }},
      {"ibv_create_qp_ex", "unknown operations", EOPNOTSUPP, "send_ops_flags",
       [](Case& c) { return create_for(c, IBV_QPT_RC, 1ull << 40); }},
      {"ibv_create_qp_ex", "READs of UC", EOPNOTSUPP, "not for this qp_type: 0x10",
       [](Case& c) {
         return create_for(c, IBV_QPT_UC, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ);
       }},
      {"ibv_create_qp_ex", "WRITEs of UD", EOPNOTSUPP, "not for this qp_type: 0x1",
       [](Case& c) {
         return create_for(c, IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE);
       }},
      {"ibv_open_qp", "attr NULL", EINVAL, "qp_open_attr is NULL",
       [](Case& c) { return made(ibv_open_qp(c.w.context, nullptr)); }},
      {"ibv_open_qp", "comp_mask 0", EINVAL, "needs qp_num, xrcd",
       [](Case& c) { return open(c, [](Case& k, auto& a) { a.comp_mask = 0; }); }},
      {"ibv_open_qp", "another type", EINVAL, "needs qp_num, xrcd",
       [](Case& c) { return open(c, [](Case& k, auto& a) { a.qp_type = IBV_QPT_RC; }); }},
      {"ibv_open_qp", "no such number", EINVAL, "no XRC_RECV queue pair",
       [](Case& c) { return open(c, [](Case& k, auto& a) { a.qp_num = 0xffff; }); }},
      {"ibv_open_qp", "number of a destroyed one", EINVAL, "no XRC_RECV queue pair",
       [](Case& c) { return open(c, [](Case& k, auto& a) { a.qp_num = k.dead.qpn; }); }},
      {"ibv_open_qp", "number of an RC one", EINVAL, "no XRC_RECV queue pair",
       [](Case& c) { return open(c, [](Case& k, auto& a) { a.qp_num = k.w.rc->qp_num; }); }},
      {"ibv_open_qp", "xrcd NULL", EINVAL, "xrcd is NULL",
       [](Case& c) { return open(c, [](Case& k, auto& a) { a.xrcd = nullptr; }); }},
      {"ibv_open_qp", "foreign xrcd", EINVAL, "xrcd belongs to another",
       [](Case& c) { return open(c, [](Case& k, auto& a) { a.xrcd = k.foreign.xrcd; }); }},
      {"ibv_destroy_qp", "in a multicast group", EBUSY, "still attached",
       [](Case& c) { return ibv_destroy_qp(c.w.ud); }},
      {"ibv_set_ece", "any", EOPNOTSUPP, nullptr,
       [](Case& c) {
         ibv_ece ece{};
         return ibv_set_ece(c.w.rc, &ece);
       }},
      {"ibv_query_ece", "any", EOPNOTSUPP, nullptr,
       [](Case& c) {
         ibv_ece ece{};
         return ibv_query_ece(c.w.rc, &ece);
       }},
      {"ibv_query_qp", "attr NULL", EINVAL, "attr is NULL",
       [](Case& c) {
         ibv_qp_init_attr init;
         return ibv_query_qp(c.w.rc, nullptr, IBV_QP_STATE, &init);
       }},
      {"ibv_query_qp", "init_attr NULL", EINVAL, "init_attr is NULL",
       [](Case& c) {
         ibv_qp_attr a;
         return ibv_query_qp(c.w.rc, &a, IBV_QP_STATE, nullptr);
       }},
      {"ibv_modify_qp_rate_limit", "attr NULL", EINVAL, "attr is NULL",
       [](Case& c) { return ibv_modify_qp_rate_limit(c.w.rc, nullptr); }},
      {"ibv_modify_qp_rate_limit", "unknown comp_mask", EINVAL, "comp_mask must be 0",
       [](Case& c) { return limit_rate(c.w.rc, 1); }},
      {"ibv_modify_qp_rate_limit", "wrong state", EINVAL, "is in state INIT, must be RTS",
       [](Case& c) { return limit_rate(c.w.init, 0); }},
  };
}

std::vector<Row> state_rows() {
  return {
      {"ibv_modify_qp", "attr NULL", EINVAL, "attr is NULL",
       [](Case& c) { return ibv_modify_qp(c.w.reset, nullptr, IBV_QP_STATE); }},
      {"ibv_modify_qp", "unknown attr_mask", EINVAL, "name no attribute",
       [](Case& c) { return modify(c, c.w.reset, kToInit | 1 << 30, [](Case& k, auto& a) {}); }},
      {"ibv_modify_qp", "unknown state", EINVAL, "qp_state = 77",
       [](Case& c) {
         return modify(c, c.w.reset, kToInit,
                       [](Case& k, auto& a) { a.qp_state = static_cast<ibv_qp_state>(77); });
       }},
      {"ibv_modify_qp", "unknown current state", EINVAL, "cur_qp_state = 77",
       [](Case& c) {
         return modify(c, c.w.rc, IBV_QP_STATE | IBV_QP_CUR_STATE, [](Case& k, auto& a) {
           a.qp_state = IBV_QPS_RTS;
           a.cur_qp_state = static_cast<ibv_qp_state>(77);
         });
       }},
      {"ibv_modify_qp", "another current state", EINVAL, "IBV_QP_CUR_STATE says",
       [](Case& c) {
         return modify(c, c.w.rc, IBV_QP_STATE | IBV_QP_CUR_STATE, [](Case& k, auto& a) {
           a.qp_state = IBV_QPS_RTS;
           a.cur_qp_state = IBV_QPS_SQD;
         });
       }},
      {"ibv_modify_qp", "RESET to ERR", EINVAL, "from RESET it may go to RESET or INIT",
       [](Case& c) {
         return modify(c, c.w.reset, IBV_QP_STATE,
                       [](Case& k, auto& a) { a.qp_state = IBV_QPS_ERR; });
       }},
      {"ibv_modify_qp", "an attribute is missing", EINVAL, "attr_mask lacks IBV_QP_PORT",
       [](Case& c) {
         return modify(c, c.w.reset, kToInit & ~IBV_QP_PORT, [](Case& k, auto& a) {});
       }},
      {"ibv_modify_qp", "an attribute too many", EINVAL, "does not take IBV_QP_DEST_QPN",
       [](Case& c) {
         return modify(c, c.w.reset, kToInit | IBV_QP_DEST_QPN, [](Case& k, auto& a) {});
       }},
      {"ibv_modify_qp", "RESET to RTS", EINVAL, "is not a transition",
       [](Case& c) {
         return modify(c, c.w.reset, IBV_QP_STATE,
                       [](Case& k, auto& a) { a.qp_state = IBV_QPS_RTS; });
       }},
      {"ibv_modify_qp", "RTS to INIT", EINVAL, "is not a transition",
       [](Case& c) { return modify(c, c.w.rc, kToInit, [](Case& k, auto& a) {}); }},
      {"ibv_modify_qp", "port 2", EINVAL, "the device's only port is 1",
       [](Case& c) {
         return modify(c, c.w.reset, kToInit, [](Case& k, auto& a) { a.port_num = 2; });
       }},
      {"ibv_modify_qp", "P_Key index beyond the table", EINVAL, "P_Key table",
       [](Case& c) {
         return modify(c, c.w.reset, kToInit, [](Case& k, auto& a) { a.pkey_index = 5; });
       }},
      {"ibv_modify_qp", "unknown access flags", EINVAL, "unknown bits",
       [](Case& c) {
         return modify(c, c.w.reset, kToInit,
                       [](Case& k, auto& a) { a.qp_access_flags = 1u << 15; });
       }},
      {"ibv_modify_qp", "no path", EINVAL, "lacks IBV_QP_AV",
       [](Case& c) { return to_rtr(c, IBV_QP_AV, [](Case& k, auto& a) {}); }},
      {"ibv_modify_qp", "a path of zeros", EINVAL, "IBV_QP_AV",
       [](Case& c) { return to_rtr(c, 0, [](Case& k, auto& a) { a.ah_attr = {}; }); }},
      {"ibv_modify_qp", "a GID index beyond the table", EINVAL, "GID table",
       [](Case& c) {
         return to_rtr(c, 0, [](Case& k, auto& a) {
           a.ah_attr.is_global = 1;
           a.ah_attr.grh.dgid = k.w.gid;
           a.ah_attr.grh.sgid_index = 100;
         });
       }},
      {"ibv_modify_qp", "a GID index whose row is free", EINVAL, "is free",
       [](Case& c) {
         return to_rtr(c, 0, [](Case& k, auto& a) {
           a.ah_attr.is_global = 1;
           a.ah_attr.grh.dgid = k.w.gid;
           a.ah_attr.grh.sgid_index = 7;
         });
       }},
      {"ibv_modify_qp", "dest_qp_num beyond 24 bits", EINVAL, "dest_qp_num = 0x1000011",
       [](Case& c) { return to_rtr(c, 0, [](Case& k, auto& a) { a.dest_qp_num = 0x1000011; }); }},
      {"ibv_modify_qp", "src_path_bits of a port with one LID", EINVAL, "src_path_bits is 3",
       [](Case& c) { return to_rtr(c, 0, [](Case& k, auto& a) { a.ah_attr.src_path_bits = 3; }); }},
      {"ibv_modify_qp", "no static_rate", EINVAL, "static_rate is 1;",
       [](Case& c) { return to_rtr(c, 0, [](Case& k, auto& a) { a.ah_attr.static_rate = 1; }); }},
      {"ibv_modify_qp", "path MTU 0", EINVAL, "path_mtu is 0",
       [](Case& c) {
         return to_rtr(c, 0, [](Case& k, auto& a) { a.path_mtu = static_cast<ibv_mtu>(0); });
       }},
      {"ibv_modify_qp", "path MTU in bytes", EINVAL, "path_mtu is 1024",
       [](Case& c) {
         return to_rtr(c, 0, [](Case& k, auto& a) { a.path_mtu = static_cast<ibv_mtu>(1024); });
       }},
      {"ibv_modify_qp", "min_rnr_timer beyond 31", EINVAL, "min_rnr_timer is 32",
       [](Case& c) { return to_rtr(c, 0, [](Case& k, auto& a) { a.min_rnr_timer = 32; }); }},
      {"ibv_modify_qp", "max_dest_rd_atomic beyond the device's", EINVAL,
       "max_dest_rd_atomic is 17",
       [](Case& c) { return to_rtr(c, 0, [](Case& k, auto& a) { a.max_dest_rd_atomic = 17; }); }},
  };
}

}  // namespace refusals
