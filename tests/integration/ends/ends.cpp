// SPDX-License-Identifier: BSD-2-Clause
// ends SCENARIO [OPTION...]: runs a scenario in two processes.
#include "ends.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <string_view>

namespace ends {
namespace {

constexpr std::uint32_t kPsn = 0xfffff0;  // wraps soon
constexpr std::uint32_t kQkey = 0x1234;
constexpr std::uint32_t kGrh = 40;
constexpr std::uint32_t kReceives = 64;

}  // namespace

End::End(int wire, bool is_the_client, const Options& o)
    : is_client(is_the_client), options(o), wire_(wire) {}

void End::exchange(const void* mine, void* theirs, std::size_t size) const {
  MUST(::write(wire_, mine, size) == static_cast<ssize_t>(size));
  MUST(::recv(wire_, theirs, size, MSG_WAITALL) == static_cast<ssize_t>(size));
}

void End::meet() {
  char here = 1;
  exchange(&here, &here, 1);
}

void End::open() {
  ibv_device** const devices = ibv_get_device_list(nullptr);
  MUST(devices != nullptr && devices[0] != nullptr);
  MUST((context = ibv_open_device(devices[0])) != nullptr);
  ibv_free_device_list(devices);
  MUST(ibv_query_port(context, 1, &port_) == 0);
  MUST((pd_ = ibv_alloc_pd(context)) != nullptr);
  bytes_.resize(2 * (options.size + kGrh));
  MUST((mr_ = ibv_reg_mr(pd_, bytes_.data(), bytes_.size(), +IBV_ACCESS_LOCAL_WRITE)) != nullptr);
  MUST((channel = ibv_create_comp_channel(context)) != nullptr);
  MUST((send_cq = ibv_create_cq(context, 1024, nullptr, channel, 0)) != nullptr);
  receive_cq = options.one_cq ? send_cq : ibv_create_cq(context, 1024, nullptr, channel, 0);
  MUST(receive_cq != nullptr);
}

ibv_qp* End::make_qp(ibv_qp_type type) {
  ibv_qp_init_attr_ex init{};
  init.qp_type = type;
  init.send_cq = send_cq;
  init.recv_cq = receive_cq;
  init.srq = type == IBV_QPT_RC ? srq_ : nullptr;
  init.cap = {256, kReceives, 1, 1, 0};
  init.comp_mask = type == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD;
  init.pd = pd_;
  init.xrcd = xrcd_;
  if (type == IBV_QPT_XRC_RECV) init.cap = {};
  ibv_qp* const qp = ibv_create_qp_ex(context, &init);
  MUST(qp != nullptr);
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qkey = kQkey;
  const int last = type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  MUST(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last) == 0);
  return qp;
}

void End::make_xrc() {
  ibv_xrcd_init_attr domain{};
  domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  domain.fd = -1;
  domain.oflags = O_CREAT;
  MUST((xrcd_ = ibv_open_xrcd(context, &domain)) != nullptr);
  ibv_srq_init_attr_ex init{};
  init.attr = {kReceives, 1, 0};
  init.srq_type = IBV_SRQT_XRC;
  init.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  init.pd = pd_;
  init.cq = receive_cq;
  init.xrcd = xrcd_;
  MUST((srq_ = ibv_create_srq_ex(context, &init)) != nullptr);
  sender_ = make_qp(IBV_QPT_XRC_SEND);
  receiver_ = make_qp(IBV_QPT_XRC_RECV);
}

void End::make_queue_pairs() {
  if (options.use_xrc) return make_xrc();
  if (options.use_srq) {
    ibv_srq_init_attr init{};
    init.attr = {kReceives, 1, 0};
    MUST((srq_ = ibv_create_srq(pd_, &init)) != nullptr);
  }
  sender_ = receiver_ = make_qp(options.datagrams ? IBV_QPT_UD : IBV_QPT_RC);
}

void End::bring_up(ibv_qp* qp, const Name& peer, std::uint32_t to) {
  const bool is_ud = qp->qp_type == IBV_QPT_UD;
  const bool receives = qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_RECV;
  const bool sends = qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND;
  ibv_qp_attr a{};
  a.ah_attr.port_num = 1;
  a.ah_attr.dlid = peer.lid;
  if (port_.link_layer == IBV_LINK_LAYER_ETHERNET) {
    a.ah_attr.is_global = 1;
    a.ah_attr.grh.dgid = peer.gid;
    a.ah_attr.grh.hop_limit = 64;
  }
  if (is_ud) MUST((ah_ = ibv_create_ah(pd_, &a.ah_attr)) != nullptr);
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_4096;
  a.dest_qp_num = to;
  a.rq_psn = kPsn;
  a.max_dest_rd_atomic = 1;
  a.min_rnr_timer = 1;
  int mask = IBV_QP_STATE;
  if (!is_ud) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (receives) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  MUST(ibv_modify_qp(qp, &a, mask) == 0);
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 14;
  a.retry_cnt = a.rnr_retry = 7;
  a.sq_psn = kPsn;
  a.max_rd_atomic = 1;
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (!is_ud) mask |= IBV_QP_TIMEOUT;
  if (sends) mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  MUST(ibv_modify_qp(qp, &a, mask) == 0);
}

void End::connect() {
  open();
  make_queue_pairs();
  Name mine{};
  mine.qpn = receiver_->qp_num;
  mine.sender = sender_->qp_num;
  if (options.use_xrc) MUST(ibv_get_srq_num(srq_, &mine.srq) == 0);
  mine.lid = port_.lid;
  MUST(ibv_query_gid(context, 1, 0, &mine.gid) == 0);
  exchange(&mine, &peer_, sizeof peer_);
  bring_up(sender_, peer_, peer_.qpn);
  if (receiver_ != sender_) bring_up(receiver_, peer_, peer_.sender);
  for (std::uint32_t i = 0; i < kReceives; ++i) post_receive(i);
  meet();
}

void End::post_receive(std::uint64_t id) {
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(bytes_.data()), options.size + kGrh, mr_->lkey};
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  wr.wr_id = id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  const int error =
      srq_ != nullptr ? ibv_post_srq_recv(srq_, &wr, &bad) : ibv_post_recv(receiver_, &wr, &bad);
  MUST(error == 0);
}

void End::post_send(std::uint64_t id, bool is_signaled, std::uint32_t size) {
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(bytes_.data()) + options.size + kGrh, size,
              mr_->lkey};
  ibv_send_wr wr{};
  ibv_send_wr* bad = nullptr;
  wr.wr_id = id;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = is_signaled ? IBV_SEND_SIGNALED : 0;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  if (options.datagrams) wr.wr.ud = {ah_, peer_.qpn, kQkey};
  if (options.use_xrc) wr.qp_type.xrc.remote_srqn = peer_.srq;
  MUST(ibv_post_send(sender_, &wr, &bad) == 0);
}

bool End::await_event(bool blocks) {
  pollfd readable{channel->fd, POLLIN, 0};
  if (!blocks && ::poll(&readable, 1, kPatienceMs) != 1) return false;
  ibv_cq* cq = nullptr;
  void* cookie = nullptr;
  MUST(ibv_get_cq_event(channel, &cq, &cookie) == 0);
  ibv_ack_cq_events(cq, 1);
  return true;
}

std::uint32_t End::take_events() {
  std::uint32_t count = 0;
  ibv_cq* cq = nullptr;
  void* cookie = nullptr;
  while (ibv_get_cq_event(channel, &cq, &cookie) == 0) {
    ibv_ack_cq_events(cq, 1);
    ++count;
  }
  MUST(errno == EAGAIN);
  return count;
}

bool poll_until(ibv_cq* cq, ibv_wc& wc) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  for (std::uint32_t looks = 1;; ++looks) {
    const int got = ibv_poll_cq(cq, 1, &wc);
    MUST(got >= 0);
    if (got == 1) MUST(wc.status == IBV_WC_SUCCESS);
    if (got == 1) return true;
    if (looks % 1024 == 0 && std::chrono::steady_clock::now() > end) return false;
  }
}

namespace {

const std::map<std::string_view, Scenario> kScenarios = {
    {"answers-follow-completions", &answers_follow_completions},
    {"one-completion-for-each-event", &one_completion_for_each_event},
    {"armed-sleepers-wake", &armed_sleepers_wake},
    {"unpolled-completions-tell", &unpolled_completions_tell},
};

Options read_options(int count, char** words) {
  Options o;
  for (int i = 0; i < count; ++i) {
    const std::string_view word = words[i];
    const auto number = [&] {
      MUST(++i < count);
      return static_cast<std::uint32_t>(std::strtoul(words[i], nullptr, 10));
    };
    if (word == "--rounds") {
      o.rounds = number();
    } else if (word == "--size") {
      o.size = number();
    } else if (word == "--at-once") {
      o.at_once = number();
    } else if (word == "--one-cq") {
      o.one_cq = true;
    } else if (word == "--srq") {
      o.use_srq = true;
    } else if (word == "--xrc") {
      o.use_xrc = true;
    } else if (word == "--server-sleeps") {
      o.server_sleeps = true;
    } else if (word == "--ud") {
      o.datagrams = true;
    } else if (word == "--blocks") {
      o.blocks = true;
    } else {
      end_badly(words[i], __FILE__, __LINE__);
    }
  }
  return o;
}

int run(int count, char** words) {
  MUST(count >= 2 && kScenarios.count(words[1]) == 1);
  const Options options = read_options(count - 2, words + 2);
  int wires[2];
  MUST(::socketpair(AF_UNIX, SOCK_STREAM, 0, wires) == 0);
  const pid_t child = ::fork();
  MUST(child >= 0);
  const bool is_client = child != 0;
  ::close(wires[is_client ? 1 : 0]);
  End end(wires[is_client ? 0 : 1], is_client, options);
  end.connect();
  kScenarios.at(words[1])(end);
  end.meet();
  if (!is_client) return 0;
  int status = 0;
  MUST(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ends

int main(int count, char** words) { return ends::run(count, words); }
