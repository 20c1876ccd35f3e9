// SPDX-License-Identifier: BSD-2-Clause
#include "client.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace client {
namespace {

constexpr std::size_t kMessage = 1024;
constexpr std::uint32_t kPsn = 0x123456;

ibv_qp_attr base_attributes(ibv_qp_state state) {
  ibv_qp_attr a;
  std::memset(&a, 0, sizeof a);
  a.qp_state = state;
  return a;
}

}  // namespace

void fail(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
  std::fflush(stdout);
  std::_Exit(1);
}

void say(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
  std::fflush(stdout);
}

ibv_context* open_first() {
  ibv_device** list = ibv_get_device_list(nullptr);
  EXPECT(list != nullptr && list[0] != nullptr);
  ibv_context* context = ibv_open_device(list[0]);
  EXPECT(context != nullptr);
  ibv_free_device_list(list);
  return context;
}

ibv_qp* make_qp(ibv_pd* pd, ibv_cq* cq) {
  ibv_qp_init_attr init;
  std::memset(&init, 0, sizeof init);
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {64, 64, 1, 1, 64};
  init.sq_sig_all = 1;
  ibv_qp* qp = ibv_create_qp(pd, &init);
  EXPECT(qp != nullptr);
  ibv_qp_attr a = base_attributes(IBV_QPS_INIT);
  a.port_num = 1;
  a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  EXPECT(ibv_modify_qp(qp, &a,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
  return qp;
}

void connect(ibv_qp* qp, const Peer& peer, std::uint32_t own_psn) {
  ibv_qp_attr a = base_attributes(IBV_QPS_RTR);
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = peer.qpn;
  a.rq_psn = peer.psn;
  a.max_dest_rd_atomic = 1;
  a.min_rnr_timer = 12;
  a.ah_attr.dlid = static_cast<std::uint16_t>(peer.lid);
  a.ah_attr.port_num = 1;
  EXPECT(ibv_modify_qp(qp, &a,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
  a = base_attributes(IBV_QPS_RTS);
  a.timeout = 14;
  a.retry_cnt = 7;
  a.rnr_retry = 7;
  a.sq_psn = own_psn;
  a.max_rd_atomic = 1;
  EXPECT(ibv_modify_qp(qp, &a,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

Loop::Loop(bool events) : context(open_first()), memory(2 * kMessage) {
  pd = ibv_alloc_pd(context);
  EXPECT(pd != nullptr);
  if (events) {
    channel = ibv_create_comp_channel(context);
    EXPECT(channel != nullptr);
  }
  cq = ibv_create_cq(context, 256, this, channel, 0);
  EXPECT(cq != nullptr);
  mr = ibv_reg_mr(pd, memory.data(), memory.size(), +IBV_ACCESS_LOCAL_WRITE);
  EXPECT(mr != nullptr);
  ibv_port_attr port;
  EXPECT(ibv_query_port(context, 1, &port) == 0);
  sender = make_qp(pd, cq);
  receiver = make_qp(pd, cq);
  connect(sender, {port.lid, receiver->qp_num, kPsn}, kPsn);
  connect(receiver, {port.lid, sender->qp_num, kPsn}, kPsn);
}

void Loop::post_receive(std::uint64_t id) {
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory.data()) + kMessage, kMessage, mr->lkey};
  ibv_recv_wr wr{};
  wr.wr_id = id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  EXPECT(ibv_post_recv(receiver, &wr, &bad) == 0);
}

void Loop::post_send(std::uint64_t id) {
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory.data()), kMessage, mr->lkey};
  ibv_send_wr wr{};
  wr.wr_id = id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  EXPECT(ibv_post_send(sender, &wr, &bad) == 0);
}

ibv_wc Loop::poll() {
  ibv_wc wc;
  while (ibv_poll_cq(cq, 1, &wc) == 0) {
  }
  return wc;
}

void Loop::destroy() {
  EXPECT(ibv_destroy_qp(sender) == 0);
  EXPECT(ibv_destroy_qp(receiver) == 0);
  EXPECT(ibv_destroy_cq(cq) == 0);
  if (channel != nullptr) EXPECT(ibv_destroy_comp_channel(channel) == 0);
  EXPECT(ibv_dereg_mr(mr) == 0);
  EXPECT(ibv_dealloc_pd(pd) == 0);
  EXPECT(ibv_close_device(context) == 0);
}

}  // namespace client

int main(int argc, char** argv) {
  for (const client::Case& c : client::kCases) {
    if (argc > 1 && std::strcmp(argv[1], c.name) == 0) {
      c.run();
      return 0;
    }
  }
  client::fail("no such case");
}
