// SPDX-License-Identifier: BSD-2-Clause
// Two ends that talk, for tests that say step by step what happens. An end has one queue pair, its
// completion queues and its memory. It posts what the test says, and keeps every completion in
// order. The expectations are in the tests; nothing here judges.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "traffic.hpp"
#include "world.hpp"

namespace verbena::sim {

struct PeerOptions {
  Transport transport = Transport::kRc;
  Mtu mtu = Mtu::k256;
  std::uint32_t send_capacity = 64;
  std::uint32_t receive_capacity = 64;
  std::uint32_t cq_capacity = 512;
  std::uint8_t max_rd_atomic = 4;
  std::uint8_t max_dest_rd_atomic = 4;
  std::uint8_t timeout = 14;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 12;
  std::uint32_t access = memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic |
                         memory::kFlushGlobal | memory::kFlushPersistent;
  Psn psn{0xfffff0};           // wraps soon
  bool use_srq = false;        // XRC receivers always have one
  bool shares_domain = false;  // XRC receivers: other devices may have SRQs in the same domain
  std::uint32_t max_tags = 0;  // more than 0: the SRQ matches tags
};

// A request that holds its own scatter list.
struct Request : queue::SendRequest {
  std::vector<queue::Sge> buffers;
};

class Peer {
 public:
  static constexpr memory::DomainId kDomain = 1;
  static constexpr std::size_t kMemory = 32 * 1024;

  Peer(World& world, Node& node, const PeerOptions& options);
  ~Peer();
  Peer(const Peer&) = delete;

  // Takes the queue pair from RESET to RTS, connected to the other end.
  void bring_up(const Peer& to);
  // Sets what the next bring_up() uses.
  void set_options(const PeerOptions& options) { options_ = options; }
  void modify(const qp::Attributes& attributes, std::uint32_t mask);
  void to_state(qp::State state);
  qp::State state();
  // The end's device was restarted, so there is nothing left to destroy.
  void forget() { qp_ = nullptr; }

  // Signaled requests on this end's `source` or `result` memory.
  Request send(std::uint64_t id, std::uint32_t length, std::size_t at = 0) const;
  Request write(std::uint64_t id, std::uint32_t length, const Peer& to, std::size_t at = 0) const;
  Request read(std::uint64_t id, std::uint32_t length, const Peer& from, std::size_t at = 0) const;
  Request fetch_add(std::uint64_t id, std::uint64_t add, const Peer& at) const;
  Request compare_swap(std::uint64_t id, std::uint64_t compare, std::uint64_t swap,
                       const Peer& at) const;

  // Posts and rings the doorbell.
  requester::Posted post(Request request);
  // Posts a receive of `length` bytes at offset `at` of the inbox.
  bool receive(std::uint64_t id, std::uint32_t length = 4096, std::size_t at = 0);
  bool receive_into(std::uint64_t id, const queue::Sge& sge);
  // Moves what completed to the lists below.
  void reap();

  std::size_t count(queue::AsyncEvent event) const;
  qp::QueuePair& qp() { return *qp_; }
  const qp::QueuePair& qp() const { return *qp_; }
  Node& node() { return node_; }
  queue::SharedReceive* srq() { return srq_.get(); }
  queue::CompletionQueue& send_cq() { return send_cq_; }
  queue::CompletionQueue& receive_cq() { return receive_cq_; }

  Arena source;  // a pattern that differs between the ends
  Arena result;  // results of READs and atomics
  Arena inbox;   // receives
  Arena target;  // open to the peer; zeros
  std::vector<queue::Completion> sends, receives;

 private:
  World& world_;
  Node& node_;
  PeerOptions options_;
  queue::CompletionQueue send_cq_, receive_cq_;
  std::unique_ptr<queue::SharedReceive> srq_;
  qp::QueuePair* qp_ = nullptr;
};

// Two connected ends, on nodes 0 and 1 of a world of their own.
struct Pair {
  explicit Pair(const PeerOptions& left_options = {}, std::uint64_t seed = 1)
      : Pair(left_options, left_options, seed) {}
  Pair(const PeerOptions& left_options, const PeerOptions& right_options, std::uint64_t seed = 1);

  void connect();
  // Lets time pass and reaps completions until `ready` or the end of `limit`. False: never ready.
  template <typename F>
  bool run_until(F&& ready, TimeNs limit = 2'000'000'000) {
    const TimeNs end = world.now() + limit;
    for (;;) {
      left.reap();
      right.reap();
      if (ready()) return true;
      if (world.now() >= end) return false;
      world.step(std::min(end, world.now() + 100'000));
    }
  }
  void run(TimeNs length) {
    run_until([] { return false; }, length);
  }

  World world;
  Node& a;
  Node& b;
  Peer left, right;
};

// Returns the transport of the other end, which differs for XRC.
Transport other_end(Transport transport);

}  // namespace verbena::sim
