// SPDX-License-Identifier: BSD-2-Clause
// One end of an RC connection that a stranger wants to disturb. It is made by librdmacm, or by
// verbs alone with the addresses that the two ends print for each other.
//
//   victim listen PORT | victim connect ADDRESS PORT        by librdmacm
//   victim verbs                                            by hand: LID, QPN, PSN and GID on the
//                                                           output, the peer's on the input
//
// It prints "connected QPN". Then each line on the input is one round: the program sends a message
// and prints what came from the peer ("message N", with N increasing by one), or what went wrong. A
// line "end" ends it.
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

namespace {

constexpr std::size_t kSize = 64;
constexpr int kReceives = 64;

[[noreturn]] void fail(const std::string& what) {
  std::printf("failed: %s\n", what.c_str());
  std::exit(1);
}

void check(bool good, const char* what) {
  if (!good) fail(std::string(what) + ": " + std::strerror(errno));
}

class End {
 public:
  explicit End(ibv_context* context) {
    cq_ = ibv_create_cq(context, 256, nullptr, nullptr, 0);
    pd_ = ibv_alloc_pd(context);
    check(cq_ != nullptr && pd_ != nullptr, "ibv_create_cq, ibv_alloc_pd");
    mr_ = ibv_reg_mr(pd_, buffer_.data(), buffer_.size(), +IBV_ACCESS_LOCAL_WRITE);
    check(mr_ != nullptr, "ibv_reg_mr");
  }

  ibv_pd* pd() const { return pd_; }
  ibv_qp_init_attr attributes() const {
    ibv_qp_init_attr a{};
    a.qp_type = IBV_QPT_RC;
    a.send_cq = a.recv_cq = cq_;
    a.cap = {16, kReceives, 1, 1, 0};
    a.sq_sig_all = 1;
    return a;
  }
  void use(ibv_qp* qp) {
    qp_ = qp;
    for (std::uint64_t i = 0; i < kReceives; ++i) post_receive(i);
  }

  void run(rdma_event_channel* channel) {
    std::printf("connected 0x%06x\n", qp_->qp_num);
    int number = 0;
    for (std::string line; std::getline(std::cin, line) && line != "end"; ++number) {
      send(number);
      bool is_sent = false;
      bool has_come = false;
      while (!is_sent || !has_come) {
        expect_no_event(channel);
        ibv_wc wc{};
        if (ibv_poll_cq(cq_, 1, &wc) == 0) continue;
        if (wc.status != IBV_WC_SUCCESS) fail(ibv_wc_status_str(wc.status));
        if (wc.opcode == IBV_WC_SEND) {
          is_sent = true;
          continue;
        }
        if (has_come) fail("one message too many");
        has_come = true;
        take(wc.wr_id, number);
      }
      std::printf("message %d\n", number);
    }
  }

 private:
  ibv_sge at(std::uint64_t place) const {
    return {reinterpret_cast<std::uintptr_t>(buffer_.data() + place * kSize), kSize, mr_->lkey};
  }
  void post_receive(std::uint64_t place) const {
    ibv_sge sge = at(place);
    ibv_recv_wr wr{};
    wr.wr_id = place;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    check(ibv_post_recv(qp_, &wr, &bad) == 0, "ibv_post_recv");
  }
  void send(int number) {
    ibv_sge sge = at(kReceives);
    std::memset(buffer_.data() + kReceives * kSize, 0, kSize);
    std::snprintf(buffer_.data() + kReceives * kSize, kSize, "number %d", number);
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    check(ibv_post_send(qp_, &wr, &bad) == 0, "ibv_post_send");
  }
  void take(std::uint64_t place, int number) const {
    const char* text = buffer_.data() + place * kSize;
    const std::string wanted = "number " + std::to_string(number);
    if (text != wanted) fail("got '" + std::string(text, strnlen(text, kSize)) + "'");
    post_receive(place);
  }
  static void expect_no_event(rdma_event_channel* channel) {
    if (channel == nullptr) return;
    pollfd one{channel->fd, POLLIN, 0};
    if (::poll(&one, 1, 0) == 0) return;
    rdma_cm_event* event = nullptr;
    check(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
    // A stranger may ask for a connection as well; the program rejects it.
    if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) fail(rdma_event_str(event->event));
    rdma_cm_id* asks = event->id;
    rdma_ack_cm_event(event);
    rdma_reject(asks, nullptr, 0);
    rdma_destroy_id(asks);
  }

  ibv_cq* cq_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
  std::array<char, (kReceives + 1) * kSize> buffer_{};
};

// --- by librdmacm ------------------------------------------------------------------------------

rdma_cm_id* expect(rdma_event_channel* channel, rdma_cm_event_type type) {
  rdma_cm_event* event = nullptr;
  check(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
  if (event->event != type) fail(rdma_event_str(event->event));
  rdma_cm_id* id = event->id;
  rdma_ack_cm_event(event);
  return id;
}

rdma_addrinfo* resolved(const char* address, const char* port, int flags) {
  rdma_addrinfo hints{};
  hints.ai_flags = flags;
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* found = nullptr;
  check(rdma_getaddrinfo(address, port, &hints, &found) == 0, "rdma_getaddrinfo");
  return found;
}

rdma_conn_param parameters() {
  rdma_conn_param p{};
  p.responder_resources = p.initiator_depth = 1;
  p.retry_count = p.rnr_retry_count = 7;
  return p;
}

void by_rdmacm(const char* address, const char* port) {
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  check(channel != nullptr && rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0,
        "rdma_create_id");
  rdma_conn_param p = parameters();
  if (address == nullptr) {
    check(rdma_bind_addr(id, resolved(nullptr, port, RAI_PASSIVE)->ai_src_addr) == 0,
          "rdma_bind_addr");
    check(rdma_listen(id, 16) == 0, "rdma_listen");
    std::puts("listening");
    id = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  } else {
    check(rdma_resolve_addr(id, nullptr, resolved(address, port, 0)->ai_dst_addr, 2000) == 0,
          "rdma_resolve_addr");
    expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    check(rdma_resolve_route(id, 2000) == 0, "rdma_resolve_route");
    expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  }
  static End end(id->verbs);
  ibv_qp_init_attr attributes = end.attributes();
  check(rdma_create_qp(id, end.pd(), &attributes) == 0, "rdma_create_qp");
  end.use(id->qp);
  check((address == nullptr ? rdma_accept(id, &p) : rdma_connect(id, &p)) == 0, "rdma_connect");
  expect(channel, RDMA_CM_EVENT_ESTABLISHED);
  end.run(channel);
}

// --- by verbs alone ----------------------------------------------------------------------------

struct Name {
  unsigned lid = 0;
  unsigned qpn = 0;
  unsigned psn = 0;
  ibv_gid gid{};
};

void by_verbs() {
  ibv_device** list = ibv_get_device_list(nullptr);
  check(list != nullptr && list[0] != nullptr, "ibv_get_device_list");
  ibv_context* context = ibv_open_device(list[0]);
  check(context != nullptr, "ibv_open_device");
  static End end(context);
  ibv_qp_init_attr attributes = end.attributes();
  ibv_qp* qp = ibv_create_qp(end.pd(), &attributes);
  check(qp != nullptr, "ibv_create_qp");
  ibv_port_attr port{};
  Name own;
  check(ibv_query_port(context, 1, &port) == 0 && ibv_query_gid(context, 1, 0, &own.gid) == 0,
        "ibv_query_port");
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  check(ibv_modify_qp(qp, &a,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
        "INIT");
  own.lid = port.lid;
  own.qpn = qp->qp_num;
  own.psn = static_cast<unsigned>(::getpid()) & 0xffffff;
  std::printf("name %u %u %u %016" PRIx64 "%016" PRIx64 "\n", own.lid, own.qpn, own.psn,
              be64toh(own.gid.global.subnet_prefix), be64toh(own.gid.global.interface_id));
  Name peer;
  std::string gid;
  std::string rest;
  std::cin >> peer.lid >> peer.qpn >> peer.psn >> gid;
  std::getline(std::cin, rest);
  for (std::size_t i = 0; i < 16; ++i) {
    peer.gid.raw[i] = static_cast<std::uint8_t>(std::stoul(gid.substr(2 * i, 2), nullptr, 16));
  }
  a = {};
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = peer.qpn;
  a.rq_psn = peer.psn;
  a.max_dest_rd_atomic = 1;
  a.min_rnr_timer = 12;
  a.ah_attr.port_num = 1;
  a.ah_attr.dlid = static_cast<std::uint16_t>(peer.lid);
  a.ah_attr.is_global = peer.lid == 0;
  a.ah_attr.grh = {peer.gid, 0, 0, 64, 0};
  check(ibv_modify_qp(qp, &a,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
        "RTR");
  end.use(qp);
  a = {};
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 17;
  a.retry_cnt = a.rnr_retry = 7;
  a.sq_psn = own.psn;
  a.max_rd_atomic = 1;
  check(ibv_modify_qp(qp, &a,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
        "RTS");
  end.run(nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "listen" && argc == 3) {
    by_rdmacm(nullptr, argv[2]);
  } else if (what == "connect" && argc == 4) {
    by_rdmacm(argv[2], argv[3]);
  } else if (what == "verbs") {
    by_verbs();
  } else {
    fail("usage: listen PORT | connect ADDRESS PORT | verbs");
  }
}
