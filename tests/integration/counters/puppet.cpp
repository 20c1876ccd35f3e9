// SPDX-License-Identifier: BSD-2-Clause
// A process with one queue pair that does what it is told, one verb per line. It answers each line
// with one line: "ok", a number, or "errno N". puppets.py talks to it.
//
//   puppet rc|uc|ud
//
// prints "here LID GID QPN RKEY ADDRESS" once the queue pair is in INIT. KEY=VALUE after a verb
// replaces a default:
//
//   connect lid=1 gid=HEX32 qpn=2    to RTR and RTS; sq_psn= rq_psn= retries= rnr= timeout= access=
//                                    reads= served= mtu=
//   ready ...                        as connect, to RTR only
//   receive count=1 length=64        posts receives
//   send|write|read|add              count=1 length=64 at=0 (offset in own memory) lkey= rkey=
//                                    address= lid= gid= qpn= qkey=
//   bind type=2 more=1               posts IBV_WR_BIND_MW; `more` is added to the window's key
//   poll count=1                     waits for `count` completions and prints their statuses
//   arm solicited=0, event           ibv_req_notify_cq, ibv_get_cq_event, with PUPPET_CHANNEL set
//   ack                              acknowledges one such event
//   async                            ibv_get_async_event, not acknowledged
//   join gid=HEX32                   attaches to a multicast group
//   violations                       "PKEY QKEY" as ibv_query_port counts them
//   state ERR                        ibv_modify_qp to the error state
//   unmap                            unmaps the registered memory
//   deregister                       ibv_dereg_mr
//   another receives=0               makes one more queue pair, with a completion queue of its own;
//                                    receives=1: its receives complete in the first queue
//   fork                             a child polls once and ends
//   become                           executes another program, and does not answer
//   end                              closes everything in order
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

namespace {

constexpr std::size_t kBytes = 1 << 20;
constexpr std::uint32_t kGrh = 40;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC;
constexpr auto kPatience = std::chrono::seconds(60);

[[noreturn]] void give_up(const char* what) {
  std::printf("failed %s %d\n", what, errno);
  std::fflush(stdout);
  std::_Exit(1);
}

// The words behind a verb.
class Words {
 public:
  explicit Words(std::istringstream& rest) {
    for (std::string word; rest >> word;) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos) {
        plain = word;
      } else {
        values_[word.substr(0, equals)] = word.substr(equals + 1);
      }
    }
  }
  std::uint64_t number(const char* key, std::uint64_t otherwise) const {
    const auto found = values_.find(key);
    return found == values_.end() ? otherwise : std::strtoull(found->second.c_str(), nullptr, 0);
  }
  ibv_gid gid() const {
    ibv_gid gid{};
    const auto found = values_.find("gid");
    for (std::size_t i = 0; found != values_.end() && i < sizeof gid; ++i) {
      gid.raw[i] =
          static_cast<std::uint8_t>(std::stoul(found->second.substr(2 * i, 2), nullptr, 16));
    }
    return gid;
  }
  std::string plain;

 private:
  std::map<std::string, std::string> values_;
};

class Puppet {
 public:
  explicit Puppet(const std::string& type);
  std::string obey(const std::string& verb, const Words& words);

 private:
  int ready(const Words& words);
  int connect(const Words& words);
  int receive(const Words& words);
  int send(const std::string& verb, const Words& words);
  std::string poll(std::uint64_t count);
  std::string violations();
  int to_error();
  int make_another(const Words& words);
  int bind(const Words& words);
  int poll_in_child();
  int wait_for_event();
  int wait_for_async_event();
  std::string end();
  ibv_ah_attr way_to(const Words& words) const;
  ibv_sge part(const Words& words, std::uint32_t more = 0) const;

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_ah* ah_ = nullptr;
  std::uint8_t* memory_ = nullptr;
  ibv_port_attr port_{};
};

Puppet::Puppet(const std::string& type) {
  ibv_device** list = ibv_get_device_list(nullptr);
  if (list == nullptr || list[0] == nullptr) give_up("ibv_get_device_list");
  context_ = ibv_open_device(list[0]);
  if (context_ == nullptr) give_up("ibv_open_device");
  ibv_free_device_list(list);
  if (ibv_query_port(context_, 1, &port_) != 0) give_up("ibv_query_port");
  memory_ = static_cast<std::uint8_t*>(
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  pd_ = ibv_alloc_pd(context_);
  // A queue pair with a channel belongs to the first engine.
  if (std::getenv("PUPPET_CHANNEL") != nullptr) channel_ = ibv_create_comp_channel(context_);
  const char* const cqe = std::getenv("PUPPET_CQE");
  cq_ = ibv_create_cq(context_, cqe == nullptr ? 20000 : std::atoi(cqe), nullptr, channel_, 0);
  mr_ = ibv_reg_mr(pd_, memory_, kBytes, kAccess);
  if (pd_ == nullptr || cq_ == nullptr || mr_ == nullptr) give_up("ibv_reg_mr");
  ibv_qp_init_attr init{};
  init.qp_type = type == "rc" ? IBV_QPT_RC : type == "uc" ? IBV_QPT_UC : IBV_QPT_UD;
  init.send_cq = init.recv_cq = cq_;
  init.cap = {8192, 8192, 1, 1, 0};
  init.sq_sig_all = 1;
  qp_ = ibv_create_qp(pd_, &init);
  if (qp_ == nullptr) give_up("ibv_create_qp");
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qkey = 0x1234;
  a.qp_access_flags = kAccess;
  const int last = qp_->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  if (ibv_modify_qp(qp_, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last) != 0)
    give_up("INIT");
  ibv_gid gid;
  if (ibv_query_gid(context_, 1, 0, &gid) != 0) give_up("ibv_query_gid");
  std::printf("here %u ", port_.lid);
  for (const std::uint8_t byte : gid.raw) std::printf("%02x", byte);
  std::printf(" %u %u %llu\n", qp_->qp_num, mr_->rkey,
              static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(memory_)));
  std::fflush(stdout);
}

ibv_ah_attr Puppet::way_to(const Words& words) const {
  ibv_ah_attr a{};
  a.port_num = 1;
  a.dlid = static_cast<std::uint16_t>(words.number("lid", port_.lid));
  const ibv_gid gid = words.gid();
  const bool is_multicast = gid.raw[0] == 0xff;
  if (port_.link_layer == IBV_LINK_LAYER_ETHERNET || is_multicast) {
    a.is_global = 1;
    a.grh.dgid = gid;
    a.grh.hop_limit = 64;
    if (is_multicast) a.dlid = 0xc001;
  }
  return a;
}

int Puppet::ready(const Words& words) {
  ibv_qp_attr a{};
  a.qp_access_flags = static_cast<unsigned>(words.number("access", kAccess));
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = static_cast<ibv_mtu>(words.number("mtu", IBV_MTU_1024));
  a.dest_qp_num = static_cast<std::uint32_t>(words.number("qpn", 0));
  a.rq_psn = static_cast<std::uint32_t>(words.number("rq_psn", 100));
  a.min_rnr_timer = 1;
  a.max_dest_rd_atomic = static_cast<std::uint8_t>(words.number("served", 4));
  a.ah_attr = way_to(words);
  int mask = IBV_QP_STATE;
  if (qp_->qp_type != IBV_QPT_UD) {
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_ACCESS_FLAGS;
  }
  if (qp_->qp_type == IBV_QPT_RC) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return ibv_modify_qp(qp_, &a, mask);
}

int Puppet::connect(const Words& words) {
  if (const int code = ready(words); code != 0) return code;
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTS;
  a.sq_psn = static_cast<std::uint32_t>(words.number("sq_psn", 100));
  a.timeout = static_cast<std::uint8_t>(words.number("timeout", 14));
  a.retry_cnt = static_cast<std::uint8_t>(words.number("retries", 7));
  a.rnr_retry = static_cast<std::uint8_t>(words.number("rnr", 7));
  a.max_rd_atomic = static_cast<std::uint8_t>(words.number("reads", 4));
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (qp_->qp_type == IBV_QPT_RC) {
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  return ibv_modify_qp(qp_, &a, mask);
}

ibv_sge Puppet::part(const Words& words, std::uint32_t more) const {
  return {reinterpret_cast<std::uintptr_t>(memory_) + words.number("at", 0),
          static_cast<std::uint32_t>(words.number("length", 64)) + more,
          static_cast<std::uint32_t>(words.number("lkey", mr_->lkey))};
}

int Puppet::receive(const Words& words) {
  ibv_sge sge = part(words, qp_->qp_type == IBV_QPT_UD ? kGrh : 0);
  ibv_recv_wr wr{};
  wr.wr_id = words.number("id", 7);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  for (std::uint64_t i = words.number("count", 1); i != 0; --i) {
    ibv_recv_wr* bad = nullptr;
    if (const int code = ibv_post_recv(qp_, &wr, &bad); code != 0) return code;
  }
  return 0;
}

int Puppet::send(const std::string& verb, const Words& words) {
  ibv_sge sge = part(words);
  ibv_send_wr wr{};
  wr.wr_id = words.number("id", 5);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = verb == "send"    ? IBV_WR_SEND
              : verb == "write" ? IBV_WR_RDMA_WRITE
              : verb == "read"  ? IBV_WR_RDMA_READ
                                : IBV_WR_ATOMIC_FETCH_AND_ADD;
  wr.wr.rdma.rkey = static_cast<std::uint32_t>(words.number("rkey", 0));
  wr.wr.rdma.remote_addr = words.number("address", 0);
  if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.wr.atomic.rkey = wr.wr.rdma.rkey;
    wr.wr.atomic.remote_addr = words.number("address", 0);
    wr.wr.atomic.compare_add = 1;
    sge.length = 8;
  }
  if (qp_->qp_type == IBV_QPT_UD) {
    ibv_ah_attr way = way_to(words);
    if (ah_ != nullptr) ibv_destroy_ah(ah_);
    ah_ = ibv_create_ah(pd_, &way);
    if (ah_ == nullptr) return errno;
    wr.wr.ud.ah = ah_;
    wr.wr.ud.remote_qpn = static_cast<std::uint32_t>(words.number("qpn", 0));
    wr.wr.ud.remote_qkey = static_cast<std::uint32_t>(words.number("qkey", 0x1234));
  }
  for (std::uint64_t i = words.number("count", 1); i != 0; --i) {
    ibv_send_wr* bad = nullptr;
    if (const int code = ibv_post_send(qp_, &wr, &bad); code != 0) return code;
  }
  return 0;
}

std::string Puppet::poll(std::uint64_t count) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  std::string statuses;
  while (count != 0) {
    ibv_wc wc;
    const int got = ibv_poll_cq(cq_, 1, &wc);
    if (got < 0 || std::chrono::steady_clock::now() > end) return "nothing after:" + statuses;
    if (got == 0) continue;
    statuses += (statuses.empty() ? "" : " ") + std::to_string(wc.status);
    --count;
  }
  return statuses;
}

std::string Puppet::violations() {
  ibv_port_attr now{};
  if (const int code = ibv_query_port(context_, 1, &now); code != 0)
    return "errno " + std::to_string(code);
  return std::to_string(now.bad_pkey_cntr) + " " + std::to_string(now.qkey_viol_cntr);
}

int Puppet::to_error() {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_ERR;
  return ibv_modify_qp(qp_, &a, IBV_QP_STATE);
}

int Puppet::make_another(const Words& words) {
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = ibv_create_cq(context_, 10, nullptr, nullptr, 0);
  if (words.number("receives", 0) != 0) init.recv_cq = cq_;
  init.cap = {1, 1, 1, 1, 0};
  return init.send_cq == nullptr || ibv_create_qp(pd_, &init) == nullptr ? errno : 0;
}

int Puppet::bind(const Words& words) {
  const auto type = words.number("type", 2) == 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
  ibv_mw* const window = ibv_alloc_mw(pd_, type);
  if (window == nullptr) return errno;
  ibv_send_wr wr{};
  wr.wr_id = 5;
  wr.opcode = IBV_WR_BIND_MW;
  wr.bind_mw.mw = window;
  wr.bind_mw.rkey =
      ibv_inc_rkey(window->rkey) + static_cast<std::uint32_t>(words.number("more", 0));
  wr.bind_mw.bind_info = {mr_, reinterpret_cast<std::uintptr_t>(memory_), 64,
                          IBV_ACCESS_REMOTE_WRITE};
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp_, &wr, &bad);
}

int Puppet::poll_in_child() {
  const pid_t child = ::fork();
  if (child == 0) {
    ibv_wc wc;
    std::_Exit(ibv_poll_cq(cq_, 1, &wc));
  }
  int status = -1;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0 ? 0 : errno;
}

int Puppet::wait_for_event() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  return ibv_get_cq_event(channel_, &cq, &context) == 0 ? 0 : errno;
}

int Puppet::wait_for_async_event() {
  ibv_async_event event{};
  return ibv_get_async_event(context_, &event) == 0 ? 0 : errno;
}

std::string Puppet::end() {
  if (ah_ != nullptr) ibv_destroy_ah(ah_);
  const bool fine = ibv_destroy_qp(qp_) == 0 && ibv_destroy_cq(cq_) == 0 &&
                    (channel_ == nullptr || ibv_destroy_comp_channel(channel_) == 0) &&
                    ibv_dereg_mr(mr_) == 0 && ibv_dealloc_pd(pd_) == 0 &&
                    ibv_close_device(context_) == 0;
  return fine ? "ok" : "errno " + std::to_string(errno);
}

std::string Puppet::obey(const std::string& verb, const Words& words) {
  int code = EINVAL;
  if (verb == "poll") return poll(words.number("count", 1));
  if (verb == "violations") return violations();
  if (verb == "end") return end();
  if (verb == "ready") code = ready(words);
  if (verb == "connect") code = connect(words);
  if (verb == "receive") code = receive(words);
  if (verb == "state") code = to_error();
  if (verb == "another") code = make_another(words);
  if (verb == "bind") code = bind(words);
  if (verb == "arm") code = ibv_req_notify_cq(cq_, static_cast<int>(words.number("solicited", 0)));
  if (verb == "event") code = wait_for_event();
  if (verb == "ack") {
    ibv_ack_cq_events(cq_, 1);
    code = 0;
  }
  if (verb == "destroy") code = ibv_destroy_qp(qp_);
  if (verb == "async") code = wait_for_async_event();
  if (verb == "fork") code = poll_in_child();
  if (verb == "become") code = ::execlp("cat", "cat", nullptr);
  if (verb == "close") code = ::close_range(3, ~0u, 0);
  if (verb == "unmap") code = ::munmap(memory_, kBytes);
  if (verb == "deregister") code = ibv_dereg_mr(mr_);
  if (verb == "send" || verb == "write" || verb == "read" || verb == "add")
    code = send(verb, words);
  if (verb == "join") {
    const ibv_gid group = words.gid();
    code = ibv_attach_mcast(qp_, &group, 0xc001);
  }
  return code == 0 ? "ok" : "errno " + std::to_string(code);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  Puppet puppet(argv[1]);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream rest(line);
    std::string verb;
    rest >> verb;
    std::printf("%s\n", puppet.obey(verb, Words(rest)).c_str());
    std::fflush(stdout);
  }
  return 0;
}
