// SPDX-License-Identifier: BSD-2-Clause
// A process that takes part in an XRC domain. It reads one verb per line on standard input, and
// answers with a line that begins with "ok" or "errno N". The test plays the application.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kSlot = 4096;
constexpr std::size_t kSlots = 64;
constexpr std::size_t kTarget = 32 * kSlot;  // where peers write; receives are below
constexpr std::uint32_t kPsn = 0xfffffa;     // wraps soon
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC;

using Words = std::istringstream;

struct Refused {
  int error;
};
void must(bool ok) {
  if (!ok) throw Refused{errno};
}
void must_be_zero(int error) {
  if (error != 0) throw Refused{error};
}

struct Member {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_xrcd* domain = nullptr;
  ibv_srq* srq = nullptr;
  ibv_qp* qp = nullptr;  // a sender, or a handle of a receiver
  ibv_gid gid{};
  ibv_port_attr port{};
  std::vector<char> memory = std::vector<char>(kSlot * kSlots);
  std::uint64_t posted = 0;

  std::uint64_t address(std::size_t at) { return reinterpret_cast<std::uintptr_t>(&memory[at]); }
};

void open_device(Member& m) {
  ibv_device** devices = ibv_get_device_list(nullptr);
  must(devices != nullptr && devices[0] != nullptr);
  m.context = ibv_open_device(devices[0]);
  ibv_free_device_list(devices);
  must(m.context != nullptr);
  must_be_zero(ibv_query_port(m.context, 1, &m.port));
  must_be_zero(ibv_query_gid(m.context, 1, 0, &m.gid));
  must((m.pd = ibv_alloc_pd(m.context)) != nullptr);
  must((m.cq = ibv_create_cq(m.context, 128, nullptr, nullptr, 0)) != nullptr);
  must((m.mr = ibv_reg_mr(m.pd, m.memory.data(), m.memory.size(), kAccess)) != nullptr);
}

std::string open_domain(Member& m, Words& words) {
  std::string file, flags;
  words >> file >> flags;
  const int fd = file == "none" ? -1 : ::open(file.c_str(), O_RDONLY | O_CREAT, 0600);
  ibv_xrcd_init_attr attr{};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = fd;
  if (flags.find('c') != std::string::npos) attr.oflags |= O_CREAT;
  if (flags.find('x') != std::string::npos) attr.oflags |= O_EXCL;
  ibv_xrcd* made = ibv_open_xrcd(m.context, &attr);
  const int error = errno;
  if (fd >= 0) ::close(fd);
  errno = error;
  must(made != nullptr);
  m.domain = made;
  return "";
}

std::string make_srq(Member& m, Words&) {
  ibv_srq_init_attr_ex attr{};
  attr.attr.max_wr = 64;
  attr.attr.max_sge = 1;
  attr.srq_type = IBV_SRQT_XRC;
  attr.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  attr.pd = m.pd;
  attr.cq = m.cq;
  attr.xrcd = m.domain;
  must((m.srq = ibv_create_srq_ex(m.context, &attr)) != nullptr);
  std::uint32_t number = 0;
  must_be_zero(ibv_get_srq_num(m.srq, &number));
  return std::to_string(number) + " " + std::to_string(m.mr->rkey) + " " +
         std::to_string(m.address(kTarget));
}

std::string make_qp(Member& m, ibv_qp_type type) {
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = type;
  const bool receives = type == IBV_QPT_XRC_RECV;
  attr.comp_mask = receives ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD;
  attr.xrcd = m.domain;
  attr.pd = m.pd;
  attr.cap.max_send_wr = 64;
  attr.cap.max_send_sge = 1;
  attr.send_cq = m.cq;
  attr.recv_cq = m.cq;
  must((m.qp = ibv_create_qp_ex(m.context, &attr)) != nullptr);
  return std::to_string(m.qp->qp_num);
}

std::string open_qp(Member& m, Words& words) {
  ibv_qp_open_attr attr{};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  words >> attr.qp_num;
  attr.xrcd = m.domain;
  attr.qp_type = IBV_QPT_XRC_RECV;
  must((m.qp = ibv_open_qp(m.context, &attr)) != nullptr);
  return std::to_string(m.qp->qp_num) + " " + std::to_string(m.qp->state);
}

// init, then rtr PEER, then rts
std::string modify(Member& m, Words& words) {
  std::string state;
  words >> state;
  ibv_qp_attr a{};
  int mask = IBV_QP_STATE;
  if (state == "reset") {
    a.qp_state = IBV_QPS_RESET;
  } else if (state == "init") {
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qp_access_flags = kAccess;
    mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  } else if (state == "rtr") {
    a.qp_state = IBV_QPS_RTR;
    words >> a.dest_qp_num;
    a.path_mtu = IBV_MTU_1024;
    a.rq_psn = kPsn;
    a.max_dest_rd_atomic = 4;
    a.min_rnr_timer = 12;
    a.ah_attr.port_num = 1;
    a.ah_attr.dlid = m.port.lid;
    if (m.port.link_layer == IBV_LINK_LAYER_ETHERNET) {
      a.ah_attr.is_global = 1;
      a.ah_attr.grh.dgid = m.gid;
      a.ah_attr.grh.hop_limit = 1;
    }
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  } else {
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 14;
    a.retry_cnt = 5;
    a.rnr_retry = 7;
    a.sq_psn = kPsn;
    a.max_rd_atomic = 4;
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
            IBV_QP_MAX_QP_RD_ATOMIC;
  }
  must_be_zero(ibv_modify_qp(m.qp, &a, mask));
  return "";
}

std::string query(Member& m, Words&) {
  ibv_qp_attr a{};
  ibv_qp_init_attr init{};
  must_be_zero(ibv_query_qp(m.qp, &a, IBV_QP_STATE, &init));
  return std::to_string(a.qp_state) + " " + std::to_string(a.dest_qp_num);
}

std::string post_receives(Member& m, Words& words) {
  int count = 0;
  words >> count;
  for (; count > 0; --count, ++m.posted) {
    ibv_sge sge{m.address(m.posted % 32 * kSlot), kSlot, m.mr->lkey};
    ibv_recv_wr wr{};
    wr.wr_id = m.posted;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    must_be_zero(ibv_post_srq_recv(m.srq, &wr, &bad));
  }
  return "";
}

// send SRQ TEXT | write SRQ RKEY ADDRESS TEXT | read SRQ RKEY ADDRESS LENGTH |
// add SRQ RKEY ADDRESS N
std::string post(Member& m, const std::string& what, Words& words) {
  ibv_send_wr wr{};
  ibv_sge sge{m.address(kTarget), 8, m.mr->lkey};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.send_flags = IBV_SEND_SIGNALED;
  words >> wr.qp_type.xrc.remote_srqn;
  if (what != "send") {
    std::uint32_t key = 0;
    std::uint64_t address = 0;
    words >> key >> address;
    wr.wr.rdma.rkey = key;
    wr.wr.rdma.remote_addr = address;
    if (what == "add") {
      wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
      wr.wr.atomic.remote_addr = address;
      wr.wr.atomic.rkey = key;
      words >> wr.wr.atomic.compare_add;
    }
  }
  if (what == "send" || what == "write") {
    std::string text;
    std::size_t length = 0;
    words >> text >> length;  // the text is repeated up to this length
    length = std::max(length, text.size());
    for (std::size_t i = 0; i < length; ++i) m.memory[kTarget + i] = text[i % text.size()];
    sge.length = static_cast<std::uint32_t>(length);
    wr.opcode = what == "send" ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
  } else if (what == "read") {
    wr.opcode = IBV_WR_RDMA_READ;
    words >> sge.length;
  }
  ibv_send_wr* bad = nullptr;
  must_be_zero(ibv_post_send(m.qp, &wr, &bad));
  return "";
}

bool until(const std::function<bool()>& ready, int milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (!ready()) {
    if (std::chrono::steady_clock::now() >= end) return false;
  }
  return true;
}

// Polls the next completion: status, opcode, length, queue pair, and the bytes of a receive.
std::string poll_cq(Member& m, Words& words) {
  int milliseconds = 0;
  words >> milliseconds;
  ibv_wc wc{};
  if (!until([&] { return ibv_poll_cq(m.cq, 1, &wc) == 1; }, milliseconds)) return "none";
  std::string text = std::to_string(wc.status) + " " + std::to_string(wc.opcode) + " " +
                     std::to_string(wc.byte_len) + " " + std::to_string(wc.qp_num) + " ";
  if (wc.status == IBV_WC_SUCCESS && (wc.opcode & IBV_WC_RECV) != 0) {
    text += std::string(&m.memory[wc.wr_id % 32 * kSlot], wc.byte_len);
  }
  return text;
}

std::string next_event(Member& m, Words& words) {
  int milliseconds = 0;
  words >> milliseconds;
  pollfd waits{m.context->async_fd, POLLIN, 0};
  if (::poll(&waits, 1, milliseconds) != 1) return "none";
  ibv_async_event event{};
  must_be_zero(ibv_get_async_event(m.context, &event));
  const bool of_qp = event.element.qp == m.qp;
  ibv_ack_async_event(&event);
  return std::to_string(event.event_type) + (of_qp ? " qp" : "");
}

std::string carry_out(Member& m, const std::string& verb, Words& words) {
  if (verb == "domain") return open_domain(m, words);
  if (verb == "close_domain") return must_be_zero(ibv_close_xrcd(m.domain)), "";
  if (verb == "close_device") return must_be_zero(ibv_close_device(m.context)), "";
  if (verb == "srq") return make_srq(m, words);
  if (verb == "destroy_srq") return must_be_zero(ibv_destroy_srq(m.srq)), "";
  if (verb == "receiver") return make_qp(m, IBV_QPT_XRC_RECV);
  if (verb == "sender") return make_qp(m, IBV_QPT_XRC_SEND);
  if (verb == "open_qp") return open_qp(m, words);
  if (verb == "destroy_qp") return must_be_zero(ibv_destroy_qp(m.qp)), "";
  if (verb == "modify") return modify(m, words);
  if (verb == "query") return query(m, words);
  if (verb == "receive") return post_receives(m, words);
  if (verb == "poll") return poll_cq(m, words);
  if (verb == "event") return next_event(m, words);
  if (verb == "set") {
    std::string text;
    words >> text;
    std::memcpy(&m.memory[kTarget], text.c_str(), text.size() + 1);
    return "";
  }
  if (verb == "number") {
    std::uint64_t number;
    std::memcpy(&number, &m.memory[kTarget], sizeof number);
    return std::to_string(number);
  }
  if (verb == "text") return std::string(&m.memory[kTarget]);
  if (verb == "clear") return m.memory.assign(m.memory.size(), 0), "";
  return post(m, verb, words);
}

}  // namespace

// Makes one member per requested context; "N verb ..." is for the Nth.
int main(int argc, char** argv) {
  std::vector<Member> members(argc > 1 ? static_cast<std::size_t>(std::atoi(argv[1])) : 1);
  try {
    for (Member& m : members) open_device(m);
  } catch (const Refused& refused) {
    std::cout << "errno " << refused.error << std::endl;
    return 1;
  }
  std::cout << "ok" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    Words words(line);
    std::size_t which = 0;
    std::string verb;
    words >> which >> verb;
    try {
      const std::string answer = carry_out(members.at(which), verb, words);
      std::cout << "ok " << answer << std::endl;
    } catch (const Refused& refused) {
      std::cout << "errno " << refused.error << std::endl;
    }
  }
  return 0;
}
