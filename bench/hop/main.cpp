// SPDX-License-Identifier: BSD-2-Clause
// A ping-pong of 8 bytes (or BYTES) between two contexts, both in this thread. Nothing waits and no
// other processor is involved, so time and instructions are those of the work alone.
//
//   verbena run -- bin/verbena-bench-hop send|write HOPS [BYTES [THREADS [own]]]
//
// A hop is a post, its arrival (for a send: a completion, and another receive posted) and the
// sender's completion. Prints nanoseconds per hop; scripts/bench-callgrind counts the instructions.
// With several threads, each has queue pairs and completion queues of its own, on the same two
// contexts or on contexts of its `own`. Then the figure is the time per hop of all threads
// together, and when the first thread ended.
#include <infiniband/verbs.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

namespace {

std::uint32_t message = 8;  // its length in bytes
constexpr std::uint32_t kMessageMost = 1 << 20;
constexpr std::uint32_t kInlineMost = 64;
constexpr std::uint32_t kReceives = 64;
constexpr std::size_t kTarget = kMessageMost;  // where messages arrive
// Hops before the count starts, in which the ring is made.
constexpr unsigned long kFirst = 5000;

void need(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(1);
}

class End {
 public:
  explicit End(ibv_context* context);
  void connect(const End& peer);
  void post_receive();
  void post(bool writes, const End& to);
  // Waits for the message that `from` has posted.
  void await(bool writes, const End& from);
  void await_completion();

 private:
  // Returns whether there was a completion.
  static bool poll(ibv_cq* cq);
  void modify(ibv_qp_attr attributes, int mask) {
    need(ibv_modify_qp(qp_, &attributes, mask) == 0, "ibv_modify_qp");
  }

  ibv_context* context_;
  ibv_pd* pd_ = nullptr;
  ibv_cq* send_cq_ = nullptr;
  ibv_cq* receive_cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_mr* mr_ = nullptr;
  std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(2 * kMessageMost);
  ibv_port_attr port_{};
  std::uint8_t posted_ = 0;
  std::uint32_t completed_ = 0;  // send completions that came while something else was awaited
};

End::End(ibv_context* context) : context_(context) {
  pd_ = ibv_alloc_pd(context_);
  send_cq_ = ibv_create_cq(context_, 2 * kReceives, nullptr, nullptr, 0);
  receive_cq_ = ibv_create_cq(context_, 2 * kReceives, nullptr, nullptr, 0);
  need(pd_ != nullptr && send_cq_ != nullptr && receive_cq_ != nullptr, "objects");
  mr_ = ibv_reg_mr(pd_, bytes_.data(), bytes_.size(),
                   +IBV_ACCESS_LOCAL_WRITE | +IBV_ACCESS_REMOTE_WRITE);
  need(mr_ != nullptr, "ibv_reg_mr");
  ibv_qp_init_attr init{};
  init.send_cq = send_cq_;
  init.recv_cq = receive_cq_;
  init.cap = {kReceives, kReceives, 1, 1, kInlineMost};
  init.qp_type = IBV_QPT_RC;
  qp_ = ibv_create_qp(pd_, &init);
  need(qp_ != nullptr, "ibv_create_qp");
  need(ibv_query_port(context_, 1, &port_) == 0, "ibv_query_port");
}

void End::connect(const End& peer) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  modify(a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_4096;
  a.dest_qp_num = peer.qp_->qp_num;
  a.min_rnr_timer = 12;
  a.ah_attr.dlid = peer.port_.lid;
  a.ah_attr.port_num = 1;
  modify(a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 14;
  a.retry_cnt = a.rnr_retry = 7;
  modify(a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                IBV_QP_MAX_QP_RD_ATOMIC);
  for (std::uint32_t i = 0; i < kReceives; ++i) post_receive();
}

void End::post_receive() {
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(bytes_.data()) + kTarget, message, mr_->lkey};
  ibv_recv_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  need(ibv_post_recv(qp_, &wr, &bad) == 0, "ibv_post_recv");
}

void End::post(bool writes, const End& to) {
  bytes_[message - 1] = ++posted_;
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(bytes_.data()), message, mr_->lkey};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = writes ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
  wr.send_flags = +IBV_SEND_SIGNALED;
  if (message <= kInlineMost) wr.send_flags |= +IBV_SEND_INLINE;
  wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(to.bytes_.data()) + kTarget;
  wr.wr.rdma.rkey = to.mr_->rkey;
  ibv_send_wr* bad = nullptr;
  need(ibv_post_send(qp_, &wr, &bad) == 0, "ibv_post_send");
}

bool End::poll(ibv_cq* cq) {
  ibv_wc wc;
  const int count = ibv_poll_cq(cq, 1, &wc);
  need(count >= 0, "ibv_poll_cq");
  if (count == 1 && wc.status != IBV_WC_SUCCESS) {
    std::fprintf(stderr, "a request ended with: %s\n", ibv_wc_status_str(wc.status));
    std::exit(1);
  }
  return count == 1;
}

void End::await(bool writes, const End& from) {
  if (!writes) {
    while (!poll(receive_cq_)) {
    }
    return post_receive();
  }
  const volatile std::uint8_t& last = bytes_[kTarget + message - 1];
  while (last != from.posted_) completed_ += poll(send_cq_) ? 1 : 0;
}

void End::await_completion() {
  if (completed_ != 0) {
    --completed_;
    return;
  }
  while (!poll(send_cq_)) {
  }
}

void go(End& left, End& right, bool writes, unsigned long hops) {
  for (unsigned long hop = 0; hop < hops; ++hop) {
    End& from = hop % 2 == 0 ? left : right;
    End& to = hop % 2 == 0 ? right : left;
    from.post(writes, to);
    to.await(writes, from);
    // This completion comes with the answer.
    if (hop != 0) to.await_completion();
  }
  (hops % 2 == 0 ? right : left).await_completion();
}

}  // namespace

// callgrind finds what to count by this name.
extern "C" [[gnu::noinline]] void counted_hops(End& left, End& right, bool writes,
                                               unsigned long hops) {
  go(left, right, writes, hops);
}

namespace {

using Clock = std::chrono::steady_clock;

ibv_context* open_first_device() {
  ibv_device** list = ibv_get_device_list(nullptr);
  need(list != nullptr && list[0] != nullptr, "no device; is this run by `verbena run`?");
  ibv_context* context = ibv_open_device(list[0]);
  need(context != nullptr, "ibv_open_device");
  ibv_free_device_list(list);
  return context;
}

struct alignas(128) Pair {
  Pair(ibv_context* here, ibv_context* there) : left(here), right(there) {
    left.connect(right);
    right.connect(left);
  }
  End left;
  End right;
};

double nanoseconds(Clock::duration time) {
  return std::chrono::duration<double, std::nano>(time).count();
}

}  // namespace

int main(int argc, char** argv) {
  const bool writes = argc >= 3 && std::strcmp(argv[1], "write") == 0;
  const bool sends = argc >= 3 && std::strcmp(argv[1], "send") == 0;
  if (argc >= 4) message = static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 0));
  const unsigned long count = argc >= 5 ? std::strtoul(argv[4], nullptr, 0) : 1;
  const bool shares = argc < 6 || std::strcmp(argv[5], "own") != 0;
  if ((!writes && !sends) || argc > 6 || (argc == 6 && shares) || message == 0 ||
      message > kMessageMost || count == 0) {
    return std::fprintf(stderr,
                        "usage: %s send|write HOPS [BYTES, at most 1 MiB [THREADS [own]]]\n",
                        argv[0]),
           2;
  }
  const unsigned long hops = std::max(std::strtoul(argv[2], nullptr, 0), 1UL);
  ibv_context* here = open_first_device();
  ibv_context* there = open_first_device();
  std::deque<Pair> pairs;
  for (unsigned long i = 0; i < count; ++i) {
    if (i != 0 && !shares) {
      here = open_first_device();
      there = open_first_device();
    }
    pairs.emplace_back(here, there);
  }
  for (Pair& pair : pairs) go(pair.left, pair.right, writes, kFirst);
  const Clock::time_point start = Clock::now();
  if (count == 1) {
    counted_hops(pairs[0].left, pairs[0].right, writes, hops);
    std::printf("%.1f ns a hop\n", nanoseconds(Clock::now() - start) / static_cast<double>(hops));
    return 0;
  }
  std::vector<Clock::duration> times(count);
  std::vector<std::thread> threads;
  for (unsigned long i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      go(pairs[i].left, pairs[i].right, writes, hops);
      times[i] = Clock::now() - start;
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto [first, last] = std::minmax_element(times.begin(), times.end());
  std::printf("%.1f ns a hop, the first thread ended after %.0f %% of the time\n",
              nanoseconds(*last) / static_cast<double>(hops * count),
              100 * nanoseconds(*first) / nanoseconds(*last));
  return 0;
}
