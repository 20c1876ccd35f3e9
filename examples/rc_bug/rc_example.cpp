// SPDX-License-Identifier: BSD-2-Clause
// Sends ten messages over an RC queue pair, from a client to a server:
//
//   rc_example PORT [--careful]         the server
//   rc_example PORT HOST [--careful]    the client
//
// It has a mistake that no test on a good line shows. README.md tells how to find it.
#include <infiniband/verbs.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "exchange.hpp"

namespace {

constexpr int kMessages = 10;
constexpr std::size_t kSize = 1024;
constexpr std::uint8_t kPort = 1;

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

// A queue pair and a buffer for each message. The end of the process closes everything.
class Side {
 public:
  Side() : memory_(kMessages * kSize) {
    ibv_device** list = ibv_get_device_list(nullptr);
    require(list != nullptr && list[0] != nullptr, "no device");
    context_ = ibv_open_device(list[0]);
    require(context_ != nullptr, "ibv_open_device");
    pd_ = ibv_alloc_pd(context_);
    cq_ = ibv_create_cq(context_, kMessages, nullptr, nullptr, 0);
    mr_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(), int{IBV_ACCESS_LOCAL_WRITE});
    require(pd_ != nullptr && cq_ != nullptr && mr_ != nullptr, "pd, cq or mr");
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = cq_;
    attributes.cap = {kMessages, kMessages, 1, 1, 0};
    attributes.qp_type = IBV_QPT_RC;
    qp_ = ibv_create_qp(pd_, &attributes);
    require(qp_ != nullptr, "ibv_create_qp");
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = kPort;
    modify(to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  }

  Address address() const {
    ibv_port_attr port{};
    Address own{};
    require(ibv_query_port(context_, kPort, &port) == 0, "ibv_query_port");
    require(ibv_query_gid(context_, kPort, 0, reinterpret_cast<ibv_gid*>(own.gid)) == 0, "gid");
    own.lid = port.lid;
    own.qpn = qp_->qp_num;
    return own;
  }

  void connect(const Address& peer) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTR;
    to.path_mtu = IBV_MTU_1024;
    to.dest_qp_num = peer.qpn;
    to.min_rnr_timer = 12;  // 640 us
    to.ah_attr.dlid = static_cast<std::uint16_t>(peer.lid);
    to.ah_attr.port_num = kPort;
    to.ah_attr.is_global = 1;
    std::memcpy(&to.ah_attr.grh.dgid, peer.gid, sizeof peer.gid);
    modify(to, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    to.qp_state = IBV_QPS_RTS;
    to.timeout = 17;  // 0.5 s
    to.retry_cnt = 2;
    to.rnr_retry = 7;
    modify(to, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                   IBV_QP_MAX_QP_RD_ATOMIC);
  }

  char* buffer(int i) { return memory_.data() + static_cast<std::size_t>(i) * kSize; }

  void post_receive(int i) {
    ibv_sge sge = piece(i);
    ibv_recv_wr work{};
    work.wr_id = static_cast<std::uint64_t>(i);
    work.sg_list = &sge;
    work.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    require(ibv_post_recv(qp_, &work, &bad) == 0, "ibv_post_recv");
  }

  void post_send(int i) {
    ibv_sge sge = piece(i);
    ibv_send_wr work{};
    work.sg_list = &sge;
    work.num_sge = 1;
    work.opcode = IBV_WR_SEND;
    work.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    require(ibv_post_send(qp_, &work, &bad) == 0, "ibv_post_send");
  }

  // Waits for the next completion and returns its wr_id.
  int complete() {
    ibv_wc completion{};
    while (ibv_poll_cq(cq_, 1, &completion) == 0) {
    }
    if (completion.status != IBV_WC_SUCCESS) {
      throw std::runtime_error(ibv_wc_status_str(completion.status));
    }
    return static_cast<int>(completion.wr_id);
  }

 private:
  void modify(ibv_qp_attr& to, int mask) {
    require(ibv_modify_qp(qp_, &to, mask) == 0, "ibv_modify_qp");
  }
  ibv_sge piece(int i) { return {reinterpret_cast<std::uint64_t>(buffer(i)), kSize, mr_->lkey}; }

  std::vector<char> memory_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
};

void serve(Exchange& exchange, bool careful) {
  Side side;
  for (int i = 0; i < kMessages; ++i) side.post_receive(i);
  const Address own = side.address();
  side.connect(exchange.swap(own));
  exchange.swap(own);  // waits until both are ready
  for (int i = 0; i < kMessages; ++i) std::printf("%s\n", side.buffer(side.complete()));
  // The mistake: the server ends when it has all messages. The client does not have all
  // acknowledgements by then, and the server cannot repeat one that gets lost.
  if (careful) exchange.swap(own);
}

void send_all(Exchange& exchange, bool careful) {
  Side side;
  const Address own = side.address();
  side.connect(exchange.swap(own));
  exchange.swap(own);
  for (int i = 0; i < kMessages; ++i) {
    std::snprintf(side.buffer(i), kSize, "message %d", i);
    side.post_send(i);
    side.complete();
  }
  if (careful) exchange.swap(own);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool careful = !words.empty() && words.back() == "--careful";
  if (careful) words.pop_back();
  if (words.empty() || words.size() > 2) {
    return std::fprintf(stderr, "usage: rc_example PORT [HOST] [--careful]\n"), 2;
  }
  try {
    const auto port = static_cast<std::uint16_t>(std::stoi(words[0]));
    Exchange exchange = words.size() == 1 ? Exchange::accept(port) : Exchange::to(words[1], port);
    words.size() == 1 ? serve(exchange, careful) : send_all(exchange, careful);
  } catch (const std::exception& problem) {
    return std::fprintf(stderr, "rc_example: %s\n", problem.what()), 1;
  }
}
