// SPDX-License-Identifier: BSD-2-Clause
// Work requests, posted directly and by the builder; address handles and multicast groups.
#include <cerrno>

#include "refusals.hpp"

namespace refusals {
namespace {

// Posts a SEND of 8 bytes with one thing changed. If it is refused, *bad_wr must point to it.
int send(Case& c, ibv_qp* qp, void (*change)(Case&, ibv_send_wr&, ibv_sge*)) {
  ibv_sge sges[kAnySge + 1] = {};
  sges[0] = c.w.sge();
  ibv_send_wr wr{};
  ibv_send_wr* bad = nullptr;
  wr.sg_list = sges;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  if (qp->qp_type == IBV_QPT_UD) wr.wr.ud = {c.w.ah, 1, 0x11};
  change(c, wr, sges);
  const int error = ibv_post_send(qp, &wr, &bad);
  return error != 0 && bad != &wr ? -1 : error;
}

int receive(ibv_qp* qp, ibv_sge* list, int count) {
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  wr.sg_list = list;
  wr.num_sge = count;
  const int error = ibv_post_recv(qp, &wr, &bad);
  return error != 0 && bad != &wr ? -1 : error;
}

int build(Case& c, void (*steps)(Case&, ibv_qp_ex*)) {
  ibv_qp_ex* q = c.w.builder;
  ibv_wr_start(q);
  q->wr_id = 1;
  q->wr_flags = IBV_SEND_SIGNALED;
  steps(c, q);
  return ibv_wr_complete(q);
}

int handle(Case& c, void (*change)(Case&, ibv_ah_attr&)) {
  ibv_ah_attr a = c.w.to_self();
  change(c, a);
  return made(ibv_create_ah(c.w.pd, &a));
}

}  // namespace

std::vector<Row> posting_rows() {
  return {
      {"ibv_post_send", "state RESET", EINVAL, "is in state RESET",
       [](Case& c) { return send(c, c.w.reset, [](Case& k, ibv_send_wr& wr, ibv_sge* sges) {}); }}
      // namespace refusals
      ,
      {"ibv_post_send", "state INIT", EINVAL, "is in state INIT",
       [](Case& c) { return send(c, c.w.init, [](Case& k, ibv_send_wr& wr, ibv_sge* sges) {}); }},
      {"ibv_post_send", "an XRC_RECV queue pair", EINVAL, "is an XRC_RECV one",
       [](Case& c) {
         return send(c, c.w.xrc_receive, [](Case& k, ibv_send_wr& wr, ibv_sge* sges) {});
       }},
      {"ibv_post_send", "unknown opcode", EINVAL, "opcode = 77",
       [](Case& c) {
         return send(c, c.w.rc, [](Case& k, ibv_send_wr& wr, ibv_sge* sges) {
           wr.opcode = static_cast<ibv_wr_opcode>(77);
         });
       }},
      {"ibv_post_send", "TSO", EINVAL, "not one of this device",
       [](Case& c) {
         return send(c, c.w.rc,
                     [](Case& k, ibv_send_wr& wr, ibv_sge* sges) { wr.opcode = IBV_WR_TSO; });
       }},
      {"ibv_post_send", "READ of UC", EINVAL, ": RDMA_READ, 1 elements",
       [](Case& c) {
         return send(c, c.w.uc,
                     [](Case& k, ibv_send_wr& wr, ibv_sge* sges) { wr.opcode = IBV_WR_RDMA_READ; });
       }},
      {"ibv_post_send", "WRITE of UD", EINVAL, "not one of this transport",
       [](Case& c) {
         return send(c, c.w.ud, [](Case& k, ibv_send_wr& wr, ibv_sge* sges) {
           wr.opcode = IBV_WR_RDMA_WRITE;
         });
       }},
      {"ibv_post_send", "more elements than max_send_sge", EINVAL, "max_send_sge",
       [](Case& c) {
         return send(c, c.w.rc,
                     [](Case& k, ibv_send_wr& wr, ibv_sge* sges) { wr.num_sge = kSges + 1; });
       }},
      {"ibv_post_send", "more elements than any queue", EINVAL, "num_sge = 33",
       [](Case& c) {
         return send(c, c.w.rc,
                     [](Case& k, ibv_send_wr& wr, ibv_sge* sges) { wr.num_sge = kAnySge + 1; });
       }},
      {"ibv_post_send", "negative num_sge", EINVAL, "num_sge = -1",
       [](Case& c) {
         return send(c, c.w.rc, [](Case& k, ibv_send_wr& wr, ibv_sge* sges) { wr.num_sge = -1; });
       }},
      {"ibv_post_send", "sg_list NULL", EINVAL, "sg_list is NULL",
       [](Case& c) {
         return send(c, c.w.rc,
                     [](Case& k, ibv_send_wr& wr, ibv_sge* sges) { wr.sg_list = nullptr; });
       }},
      {"ibv_post_send", "inline beyond max_inline_data", EINVAL, "max_inline_data",
       [](Case& c) {
         return send(c, c.w.rc, [](Case& k, ibv_send_wr& wr, ibv_sge* sges) {
           wr.send_flags = IBV_SEND_INLINE;
           sges[0].length = kInline + 1;
         });
       }},
      {"ibv_post_send", "inline READ", EINVAL, "makes no sense",
       [](Case& c) {
         return send(c, c.w.rc, [](Case& k, ibv_send_wr& wr, ibv_sge* sges) {
           wr.opcode = IBV_WR_RDMA_READ;
           wr.send_flags = IBV_SEND_INLINE;
         });
       }},
      {"ibv_post_send", "message beyond max_msg_sz", EINVAL, "max_msg_sz = 1073741824; ",
       [](Case& c) {
         return send(c, c.w.rc, [](Case& k, ibv_send_wr& wr, ibv_sge* sges) {
           sges[0].length = (1u << 30) + 1;
         });
       }},
      {"ibv_post_send", "datagram beyond the MTU", EINVAL, "the port's active_mtu = 4096; ",
       [](Case& c) {
         return send(c, c.w.ud,
                     [](Case& k, ibv_send_wr& wr, ibv_sge* sges) { sges[0].length = 4097; });
       }},
      {"ibv_post_send", "atomic of 4 bytes", EINVAL, "8-byte buffer",
       [](Case& c) {
         return send(c, c.w.rc, [](Case& k, ibv_send_wr& wr, ibv_sge* sges) {
           wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
           sges[0].length = 4;
         });
       }},
      {"ibv_post_send", "ah NULL", EINVAL, "needs an address handle",
       [](Case& c) {
         return send(c, c.w.ud,
                     [](Case& k, ibv_send_wr& wr, ibv_sge* sges) { wr.wr.ud.ah = nullptr; });
       }},
      {"ibv_post_send", "destroyed ah", EINVAL, "was destroyed before",
       [](Case& c) {
         return send(c, c.w.ud,
                     [](Case& k, ibv_send_wr& wr, ibv_sge* sges) { wr.wr.ud.ah = k.dead.ah; });
       }},
      {"ibv_post_send", "ATOMIC_WRITE", EINVAL, "use ibv_wr_atomic_write",
       [](Case& c) {
         return send(c, c.w.rc, [](Case& k, ibv_send_wr& wr, ibv_sge* sges) {
           wr.opcode = static_cast<ibv_wr_opcode>(15);
         });
       }},
      {"ibv_post_send", "FLUSH", EINVAL, "use ibv_wr_flush",
       [](Case& c) {
         return send(c, c.w.rc, [](Case& k, ibv_send_wr& wr, ibv_sge* sges) {
           wr.opcode = static_cast<ibv_wr_opcode>(14);
         });
       }},
      {"ibv_post_send", "BIND_MW without a window", EINVAL, "without a window",
       [](Case& c) {
         return send(c, c.w.rc,
                     [](Case& k, ibv_send_wr& wr, ibv_sge* sges) { wr.opcode = IBV_WR_BIND_MW; });
       }},
      {"ibv_post_recv", "state RESET", EINVAL, "is in state RESET",
       [](Case& c) { return receive(c.w.reset, nullptr, 0); }},
      {"ibv_post_recv", "full", ENOMEM, "the receive queue is full",
       [](Case& c) { return receive(c.w.init, nullptr, 0); }},
      {"ibv_post_recv", "uses an SRQ", EINVAL, "has no receive queue of its own",
       [](Case& c) { return receive(c.w.with_srq, nullptr, 0); }},
      {"ibv_post_recv", "an XRC_SEND queue pair", EINVAL, "ibv_post_recv: queue pair",
       [](Case& c) { return receive(c.w.xrc_send, nullptr, 0); }},
      {"ibv_post_recv", "more elements than max_recv_sge", EINVAL, "max_recv_sge",
       [](Case& c) {
         ibv_sge three[3] = {};
         return receive(c.w.rc, three, 3);
       }},
      {"ibv_post_recv", "negative num_sge", EINVAL, "num_sge = -7",
       [](Case& c) { return receive(c.w.rc, nullptr, -7); }},
      {"ibv_post_recv", "sg_list NULL", EINVAL, "sg_list is NULL",
       [](Case& c) { return receive(c.w.rc, nullptr, 2); }},
  };
}

std::vector<Row> builder_rows() {
  return {
      {"ibv_wr_complete", "a setter before any request", EINVAL, "nothing was posted",
       [](Case& c) {
         return build(c, [](Case& k, ibv_qp_ex* q) { ibv_wr_set_sge(q, k.w.mr->lkey, 0, 8); });
       }},
      {"ibv_wr_complete", "too many elements", EINVAL, "ibv_wr_set_sge_list: num_sge",
       [](Case& c) {
         return build(c, [](Case& k, ibv_qp_ex* q) {
           ibv_sge sges[kAnySge + 1] = {};
           ibv_wr_send(q);
           ibv_wr_set_sge_list(q, kAnySge + 1, sges);
         });
       }},
      {"ibv_wr_complete", "more elements than max_send_sge", EINVAL, "max_send_sge",
       [](Case& c) {
         return build(c, [](Case& k, ibv_qp_ex* q) {
           ibv_sge sges[kSges + 1] = {};
           ibv_wr_send(q);
           ibv_wr_set_sge_list(q, kSges + 1, sges);
         });
       }},
      {"ibv_wr_complete", "sg_list NULL", EINVAL, "sg_list is NULL",
       [](Case& c) {
         return build(c, [](Case& k, ibv_qp_ex* q) {
           ibv_wr_send(q);
           ibv_wr_set_sge_list(q, 1, nullptr);
         });
       }},
      {"ibv_wr_complete", "inline beyond max_inline_data", EINVAL, "max_inline_data",
       [](Case& c) {
         return build(c, [](Case& k, ibv_qp_ex* q) {
           ibv_wr_send(q);
           ibv_wr_set_inline_data(q, k.w.bytes.data(), kInline + 1);
         });
       }},
      {"ibv_wr_complete", "inline from NULL", EINVAL, "nothing was posted",
       [](Case& c) {
         return build(c, [](Case& k, ibv_qp_ex* q) {
           ibv_wr_send(q);
           ibv_wr_set_inline_data(q, nullptr, 8);
         });
       }},
      {"ibv_wr_complete", "ah NULL", EINVAL, "nothing was posted",
       [](Case& c) {
         return build(c, [](Case& k, ibv_qp_ex* q) {
           ibv_wr_send(q);
           ibv_wr_set_ud_addr(q, nullptr, 1, 1);
         });
       }},
      {"ibv_wr_complete", "destroyed ah", EINVAL, "nothing was posted",
       [](Case& c) {
         return build(c, [](Case& k, ibv_qp_ex* q) {
           ibv_wr_send(q);
           ibv_wr_set_ud_addr(q, k.dead.ah, 1, 1);
         });
       }},
      {"ibv_wr_complete", "no window to bind", EINVAL, "nothing was posted",
       [](Case& c) {
         return build(c, [](Case& k, ibv_qp_ex* q) { ibv_wr_bind_mw(q, nullptr, 0, nullptr); });
       }},
      {"ibv_wr_complete", "TSO", EOPNOTSUPP, "nothing was posted",
       [](Case& c) {
         return build(c, [](Case& k, ibv_qp_ex* q) { ibv_wr_send_tso(q, nullptr, 0, 0); });
       }},
      {"ibv_wr_complete", "more than max_send_wr", ENOMEM, "the send queue is full",
       [](Case& c) {
         return build(c, [](Case& k, ibv_qp_ex* q) {
           for (std::uint32_t i = 0; i <= kQueue; ++i) ibv_wr_send(q);
         });
       }},
      {"ibv_wr_complete", "the last of several is wrong", EINVAL, "max_inline_data",
       [](Case& c) {
         return build(c, [](Case& k, ibv_qp_ex* q) {
           ibv_wr_send(q);
           ibv_wr_send(q);
           ibv_wr_set_inline_data(q, k.w.bytes.data(), kInline + 1);
         });
       }},
  };
}

std::vector<Row> address_rows() {
  return {
      {"ibv_create_ah", "port 0", EINVAL, "port_num = 0",
       [](Case& c) { return handle(c, [](Case&, ibv_ah_attr& a) { a.port_num = 0; }); }},
      {"ibv_create_ah", "port 2", EINVAL, "port_num = 2",
       [](Case& c) { return handle(c, [](Case&, ibv_ah_attr& a) { a.port_num = 2; }); }},
      {"ibv_create_ah", "nobody's address", EINVAL, "ibv_create_ah",
       [](Case& c) {
         return handle(c, [](Case&, ibv_ah_attr& a) {
           a.dlid = 0;
           a.is_global = 0;
         });
       }},
      {"ibv_create_ah", "GID index beyond the table", EINVAL, "grh.sgid_index = 200",
       [](Case& c) {
         return handle(c, [](Case& x, ibv_ah_attr& a) {
           a.is_global = 1;
           a.grh.dgid = x.w.gid;
           a.grh.sgid_index = 200;
         });
       }},
      {"ibv_create_ah", "a GID index whose row is free", EINVAL, "is free",
       [](Case& c) {
         return handle(c, [](Case& x, ibv_ah_attr& a) {
           a.is_global = 1;
           a.grh.dgid = x.w.gid;
           a.grh.sgid_index = 7;
         });
       }},
      {"ibv_create_ah", "sl beyond 15", EINVAL, "attr.sl is 16",
       [](Case& c) { return handle(c, [](Case&, ibv_ah_attr& a) { a.sl = 16; }); }},
      {"ibv_create_ah", "src_path_bits of a port with one LID", EINVAL, "attr.src_path_bits is 1",
       [](Case& c) { return handle(c, [](Case&, ibv_ah_attr& a) { a.src_path_bits = 1; }); }},
      {"ibv_create_ah", "no static_rate", EINVAL, "attr.static_rate is 99",
       [](Case& c) { return handle(c, [](Case&, ibv_ah_attr& a) { a.static_rate = 99; }); }},
      {"ibv_create_ah", "a GID of zeros", EINVAL, "no route",
       [](Case& c) {
         return handle(c, [](Case&, ibv_ah_attr& a) {
           a.dlid = 0;
           a.is_global = 1;
           a.grh.dgid = {};
         });
       }},
      {"ibv_attach_mcast", "an RC queue pair", EINVAL, "only UD queue pairs",
       [](Case& c) { return ibv_attach_mcast(c.w.rc, &kGroup, 0xc009); }},
      {"ibv_attach_mcast", "a unicast GID", EINVAL, "not a multicast GID",
       [](Case& c) { return ibv_attach_mcast(c.w.ud, &c.w.gid, 0xc009); }},
      {"ibv_attach_mcast", "gid NULL", EINVAL, "gid is NULL",
       [](Case& c) { return ibv_attach_mcast(c.w.ud, nullptr, 0xc009); }},
      {"ibv_detach_mcast", "not attached", EINVAL, "is not attached",
       [](Case& c) {
         ibv_gid other = kGroup;
         other.raw[15] = 10;
         return ibv_detach_mcast(c.w.ud, &other, 0xc009);
       }},
      {"ibv_detach_mcast", "attached with another LID", EINVAL, "with this lid",
       [](Case& c) { return ibv_detach_mcast(c.w.ud, &kGroup, 0xc00a); }},
      {"ibv_detach_mcast", "gid NULL", EINVAL, "gid is NULL",
       [](Case& c) { return ibv_detach_mcast(c.w.ud, nullptr, 0xc009); }},
  };
}

}  // namespace refusals
