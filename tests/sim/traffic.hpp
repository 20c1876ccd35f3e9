// SPDX-License-Identifier: BSD-2-Clause
// Applications of the simulation: each has one end of a connected queue pair, its memory, what it
// posts, and the model of what must come of it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "judge.hpp"
#include "world.hpp"

namespace verbena::sim {

// What may happen between two ends. The seed draws it once for each connection.
struct TrafficOptions {
  Mtu mtu = Mtu::k1024;
  std::uint32_t operations = 40;  // how many each end posts
  std::uint32_t send_depth = 16;
  std::uint32_t receive_depth = 16;
  std::uint32_t max_sges = 3;
  std::uint32_t max_packets = 5;  // in a message
  std::uint8_t max_rd_atomic = 4;
  std::uint8_t timeout = 14;
  std::uint8_t retry_count = 7;
  std::uint8_t min_rnr_timer = 12;
  std::uint32_t late_receives = 0;  // ppm: how often a receive is posted again late
  std::uint32_t unsignaled = 300'000;
  bool use_srq = false;
  bool use_xrc = false;
  bool one_queue = false;  // sends and receives share a completion queue
  bool in_order = false;   // nothing arrives before an acknowledgement that was sent before it
  bool sends = true, writes = true, reads = true, atomics = true;
};

// Registered memory with guard bytes around it.
class Arena {
 public:
  Arena(Node& node, memory::DomainId domain, std::size_t size, std::uint32_t access);
  std::span<std::uint8_t> bytes() { return {storage_.data() + kGuard, size_}; }
  std::uint64_t address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uint64_t>(storage_.data() + kGuard + offset);
  }
  std::uint32_t key() const { return key_; }
  void expect_guards() const;

 private:
  static constexpr std::size_t kGuard = 64;
  std::size_t size_;
  std::vector<std::uint8_t> storage_;
  std::uint32_t key_ = 0;
};

// A counter that several connections increment.
struct SharedCounter {
  SharedCounter(Node& node, memory::DomainId domain);
  std::uint64_t value();
  Arena arena;
  Tickets tickets;
};

class End {
 public:
  End(World& world, Node& node, const TrafficOptions& options, bool receives_xrc);
  ~End();
  End(const End&) = delete;

  void connect_to(End& other, SharedCounter* counter);
  void bring_up();
  // Posts what fits, and reaps what completed. True: something happened.
  bool turn();
  bool is_done() const;
  void expect_final() const;
  Node& node() { return node_; }
  qp::QueuePair& qp() { return *qp_; }
  qp::QueuePair& sender() { return *sender_; }

 private:
  friend class Connection;
  static constexpr memory::DomainId kDomain = 1;

  std::uint32_t mtu() const { return mtu_bytes(options_.mtu); }
  std::size_t slot_size() const { return std::size_t{mtu()} * options_.max_packets; }
  bool post_one();
  bool try_to_post_receive(std::size_t slot);
  void post_receive(std::size_t slot);
  void expect_full_queues();
  void reap(queue::CompletionQueue& cq);
  void take_send(const queue::Completion& completion);
  void take_receive(const queue::Completion& completion);
  void post_late_receives();
  void check_message(const queue::Completion& completion);
  std::vector<queue::Sge> split(const Arena& arena, std::size_t offset, std::uint32_t length);
  void choose(queue::SendRequest& request, ExpectedCompletion& expected,
              std::vector<queue::Sge>& sges, std::size_t slot);
  void choose_send(queue::SendRequest& request, std::vector<queue::Sge>& sges, std::size_t slot);
  void choose_write(queue::SendRequest& request, std::vector<queue::Sge>& sges, std::size_t slot);
  void choose_read(queue::SendRequest& request, ExpectedCompletion& expected,
                   std::vector<queue::Sge>& sges, std::size_t slot);
  void choose_atomic(queue::SendRequest& request, ExpectedCompletion& expected,
                     std::vector<queue::Sge>& sges, std::size_t slot);

  World& world_;
  Node& node_;
  TrafficOptions options_;
  End* peer_ = nullptr;
  SharedCounter* counter_ = nullptr;

  queue::CompletionQueue send_cq_;
  queue::CompletionQueue receive_cq_;
  std::unique_ptr<queue::SharedReceive> srq_;
  qp::QueuePair* qp_ = nullptr;  // receives; also sends, unless it is XRC
  qp::QueuePair* sender_ = nullptr;
  Arena source_;   // what is sent, a slot for each request
  Arena result_;   // results of READs and atomics
  Arena receive_;  // receives, a slot for each
  Arena target_;   // the peer writes here
  Arena library_;  // the peer reads here; it never changes
  Arena word_;     // the peer's own atomic word
  CompletionModel model_;
  std::deque<ExpectedMessage> inbox_;  // what the peer has sent
  std::deque<std::size_t> posted_slots_;
  std::deque<std::pair<TimeNs, std::size_t>> late_;
  std::vector<std::uint8_t> target_model_;
  std::uint64_t word_model_ = 0;
  std::uint64_t library_key_ = 0;
  std::uint32_t posted_ = 0;
  std::uint64_t heard_ = 0;       // how many of the peer's requests are known, from messages
  bool reads_of_target_ = false;  // a READ of the peer's target is under way
  std::uint64_t next_key_ = 1;
};

}  // namespace verbena::sim
