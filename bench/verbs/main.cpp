// SPDX-License-Identifier: BSD-2-Clause
// What single verbs cost on an emulated device, beside figures to compare them with:
//
//   verbena run -- bin/verbena-bench-verbs
//
// Completions come from TAG_SYNC operations, which complete at once, so only taking them is timed.
// Each figure is the best of several rounds, because the machine is not ours alone.
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 15;
constexpr std::uint32_t kBatch = 4096;
constexpr std::uint32_t kTags = 4096;
constexpr std::uint32_t kAtOnce = 256;  // how many messages, and tags for them
constexpr std::uint32_t kTagHeader = 16;
constexpr std::uint64_t kExact = ~std::uint64_t{0};
constexpr std::size_t kGiB = std::size_t{1} << 30;

void need(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(1);
}

// Returns the fewest nanoseconds that `body` takes.
template <typename Before, typename Body>
double best_ns(int rounds, Before&& before, Body&& body) {
  double best = 1e18;
  for (int round = 0; round < rounds; ++round) {
    before();
    const auto start = Clock::now();
    body();
    best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  return best;
}

// A tag-matching SRQ with a queue pair that is connected to itself.
struct Bench {
  Bench();
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq_ex* cq_ex = nullptr;
  ibv_cq* cq = nullptr;  // cq_ex as an ibv_cq
  ibv_cq* send_cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_qp* qp = nullptr;
  std::vector<char> bytes = std::vector<char>(1 << 16);
  ibv_mr* mr = nullptr;

  void post(ibv_ops_wr* wr) const {
    ibv_ops_wr* bad = nullptr;
    need(ibv_post_srq_ops(srq, wr, &bad) == 0, "ibv_post_srq_ops");
  }
  void fill(std::uint32_t count) const {
    for (std::uint32_t i = 0; i < count; ++i) {
      ibv_ops_wr wr{};
      wr.wr_id = i;
      wr.opcode = IBV_WR_TAG_SYNC;
      wr.flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC;
      post(&wr);
    }
  }
  std::uint32_t add(std::uint64_t tag) const {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(bytes.data()) + 4096, 64, mr->lkey};
    ibv_ops_wr wr{};
    wr.opcode = IBV_WR_TAG_ADD;
    wr.tm.add.tag = tag;
    wr.tm.add.mask = kExact;
    wr.tm.add.sg_list = &sge;
    wr.tm.add.num_sge = 1;
    post(&wr);
    return wr.tm.handle;
  }
  void remove(std::uint32_t handle) const {
    ibv_ops_wr wr{};
    wr.opcode = IBV_WR_TAG_DEL;
    wr.tm.handle = handle;
    post(&wr);
  }
  void receive() const {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(bytes.data()), 4096, mr->lkey};
    ibv_recv_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    need(ibv_post_srq_recv(srq, &wr, &bad) == 0, "ibv_post_srq_recv");
  }

 private:
  void make_queues();
  void connect();
};

Bench::Bench() {
  ibv_device** list = ibv_get_device_list(nullptr);
  need(list != nullptr && list[0] != nullptr, "no device; is this run by `verbena run`?");
  context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  need(context != nullptr, "ibv_open_device");
  pd = ibv_alloc_pd(context);
  mr = ibv_reg_mr(pd, bytes.data(), bytes.size(), +IBV_ACCESS_LOCAL_WRITE);
  need(pd != nullptr && mr != nullptr, "ibv_reg_mr");
  make_queues();
  connect();
}

void Bench::make_queues() {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 2 * kBatch;
  attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  cq_ex = ibv_create_cq_ex(context, &attr);
  send_cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
  need(cq_ex != nullptr && send_cq != nullptr, "ibv_create_cq_ex");
  cq = ibv_cq_ex_to_cq(cq_ex);
  ibv_srq_init_attr_ex s{};
  s.attr = {kAtOnce, 1, 0};
  s.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
  s.srq_type = IBV_SRQT_TM;
  s.pd = pd;
  s.cq = cq;
  s.tm_cap = {kTags, 64};
  srq = ibv_create_srq_ex(context, &s);
  need(srq != nullptr, "ibv_create_srq_ex");
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = send_cq;
  init.recv_cq = cq;
  init.srq = srq;
  init.cap = {16, 0, 1, 0, 64};
  init.sq_sig_all = 1;
  qp = ibv_create_qp(pd, &init);
  need(qp != nullptr, "ibv_create_qp");
}

void Bench::connect() {
  ibv_port_attr port{};
  ibv_gid gid{};
  need(ibv_query_port(context, 1, &port) == 0 && ibv_query_gid(context, 1, 0, &gid) == 0, "port");
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  need(ibv_modify_qp(qp, &a, kInit) == 0, "INIT");
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_4096;
  a.dest_qp_num = qp->qp_num;
  a.ah_attr.port_num = 1;
  a.ah_attr.dlid = port.lid;
  a.ah_attr.is_global = port.link_layer == IBV_LINK_LAYER_ETHERNET;
  a.ah_attr.grh.dgid = gid;
  a.ah_attr.grh.hop_limit = 64;
  constexpr int kRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  need(ibv_modify_qp(qp, &a, kRtr) == 0, "RTR");
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 14;
  a.retry_cnt = a.rnr_retry = 7;
  constexpr int kRts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  need(ibv_modify_qp(qp, &a, kRts) == 0, "RTS");
}

// The sum of what was read of completions. It keeps the compiler from leaving reads out.
std::uint64_t seen = 0;

void take_classic(ibv_cq* cq) {
  std::uint32_t left = kBatch;
  ibv_wc wc[16];
  while (left != 0) {
    const int got = ibv_poll_cq(cq, 16, wc);
    for (int i = 0; i < got; ++i) {
      seen += wc[i].wr_id + wc[i].status + wc[i].opcode + wc[i].byte_len + wc[i].qp_num +
              wc[i].wc_flags;
    }
    left -= static_cast<std::uint32_t>(got);
  }
}

// The extended interface shows the ID and the status of a completion. Any other field is a call,
// which a program makes only if it needs the field.
template <int kFields>
void take_extended(ibv_cq_ex* cq) {
  ibv_poll_cq_attr attr{};
  need(ibv_start_poll(cq, &attr) == 0, "ibv_start_poll");
  std::uint32_t left = kBatch;
  do {
    seen += cq->wr_id + cq->status;
    if constexpr (kFields > 0) seen += ibv_wc_read_opcode(cq);
    if constexpr (kFields > 1) seen += ibv_wc_read_byte_len(cq);
    if constexpr (kFields > 2) seen += ibv_wc_read_qp_num(cq);
    if constexpr (kFields > 3) seen += ibv_wc_read_wc_flags(cq);
  } while (--left != 0 && ibv_next_poll(cq) == 0);
  ibv_end_poll(cq);
}

// Returns a queue whose functions do nothing, to measure the interface alone.
ibv_cq_ex* idle_queue() {
  static ibv_cq_ex cq{};
  cq.start_poll = [](ibv_cq_ex*, ibv_poll_cq_attr*) { return 0; };
  cq.next_poll = [](ibv_cq_ex*) { return 0; };
  cq.end_poll = [](ibv_cq_ex*) {};
  cq.read_opcode = [](ibv_cq_ex*) { return IBV_WC_RECV; };
  cq.read_byte_len = [](ibv_cq_ex*) { return 1u; };
  cq.read_qp_num = [](ibv_cq_ex*) { return 2u; };
  cq.read_wc_flags = [](ibv_cq_ex*) { return 3u; };
  ibv_cq_ex* volatile hidden = &cq;
  return hidden;
}

// The ways take turns, so that a slow moment of the machine affects all of them.
void completions(const Bench& b) {
  struct Way {
    const char* name;
    std::function<void()> take;
    bool is_idle = false;
    double best = 1e18;
  };
  ibv_cq_ex* idle = idle_queue();
  Way ways[] = {
      {"classic (16 at a time)", [&] { take_classic(b.cq); }},
      {"extended, ID and status", [&] { take_extended<0>(b.cq_ex); }},
      {"extended, opcode too", [&] { take_extended<1>(b.cq_ex); }},
      {"extended, length too", [&] { take_extended<2>(b.cq_ex); }},
      {"extended, all six fields", [&] { take_extended<4>(b.cq_ex); }},
      {"the calls for six fields alone", [&] { take_extended<4>(idle); }, true},
  };
  for (int round = 0; round < kRounds; ++round) {
    for (Way& way : ways) {
      const auto fill = [&] {
        if (!way.is_idle) b.fill(kBatch);
      };
      way.best = std::min(way.best, best_ns(1, fill, way.take) / kBatch);
    }
  }
  for (const Way& way : ways) {
    std::printf("completion, %-30s %6.1f ns  %6.1f M/s  %.2f of the classic\n", way.name, way.best,
                1e3 / way.best, way.best / ways[0].best);
  }
}

enum : char { kNoTag = 0, kEager = 3 };

// Sends one message of 8 bytes to itself, and waits for both completions.
void send(const Bench& b, char kind, std::uint64_t tag) {
  char message[kTagHeader + 8] = {kind};
  for (int i = 0; i < 8; ++i) message[8 + i] = static_cast<char>(tag >> (56 - 8 * i));
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(message), sizeof message, 0};
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_INLINE;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_send_wr* bad = nullptr;
  need(ibv_post_send(b.qp, &wr, &bad) == 0, "ibv_post_send");
  ibv_wc wc{};
  for (ibv_cq* cq : {b.cq, b.send_cq}) {
    while (ibv_poll_cq(cq, 1, &wc) == 0) {
    }
    need(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
  }
}

void tags(const Bench& b, std::uint32_t listed) {
  constexpr std::uint64_t kOthers = std::uint64_t{1} << 32;
  std::vector<std::uint32_t> others, own(kAtOnce);
  for (std::uint32_t i = 0; i < listed; ++i) others.push_back(b.add(kOthers + i));
  const auto add_all = [&] {
    for (std::uint32_t i = 0; i < kAtOnce; ++i) own[i] = b.add(i);
  };
  const auto remove_all = [&] {
    for (const std::uint32_t handle : own) b.remove(handle);
  };
  add_all();
  const double add = best_ns(kRounds, remove_all, add_all) / kAtOnce;
  remove_all();
  const double del = best_ns(kRounds, add_all, remove_all) / kAtOnce;
  const double matched = best_ns(kRounds, add_all, [&] {
    for (std::uint32_t i = 0; i < kAtOnce; ++i) send(b, kEager, i);
  });
  const auto receive_all = [&] {
    for (std::uint32_t i = 0; i < kAtOnce; ++i) b.receive();
  };
  const double plain = best_ns(kRounds, receive_all, [&] {
    for (std::uint32_t i = 0; i < kAtOnce; ++i) send(b, kNoTag, 0);
  });
  std::printf(
      "%5u tags listed: TAG_ADD %4.0f ns, TAG_DEL %4.0f ns, message to itself with a tag "
      "%5.0f ns, without %5.0f ns\n",
      listed, add, del, matched / kAtOnce, plain / kAtOnce);
  for (const std::uint32_t handle : others) b.remove(handle);
}

void registration(const Bench& b) {
  void* memory = ::mmap(nullptr, kGiB, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  need(memory != MAP_FAILED, "mmap of 1 GiB");
  need(::madvise(memory, kGiB, MADV_POPULATE_WRITE) == 0, "madvise");
  const double touched = best_ns(
      kRounds, [] {}, [&] { need(::madvise(memory, kGiB, MADV_POPULATE_READ) == 0, "madvise"); });
  ibv_mr* mr = nullptr;
  const double registered = best_ns(
      kRounds,
      [&] {
        if (mr != nullptr) ibv_dereg_mr(mr);
      },
      [&] {
        mr = ibv_reg_mr(b.pd, memory, kGiB, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        need(mr != nullptr, "ibv_reg_mr");
      });
  ibv_dereg_mr(mr);
  ::munmap(memory, kGiB);
  std::printf("registering 1 GiB %.3f ms, its page tables walked once %.3f ms: %.3f of that\n",
              registered / 1e6, touched / 1e6, registered / touched);
}

}  // namespace

int main() {
  const Bench b;
  completions(b);
  tags(b, 1);
  tags(b, 1000);
  registration(b);
  return seen == 0 ? 1 : 0;
}
