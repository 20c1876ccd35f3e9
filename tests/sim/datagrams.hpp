// SPDX-License-Identifier: BSD-2-Clause
// UC and UD in the simulation: a stream of numbered messages. A message that arrives must be whole
// and unchanged, and on UC in order and at most once. Messages may be lost.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "traffic.hpp"

namespace verbena::sim {

class DatagramStream {
 public:
  DatagramStream(World& world, Node& from, Node& to, Transport transport);
  ~DatagramStream();
  void turn();
  bool is_done() const { return sent_ == kMessages && completed_ == kMessages; }

 private:
  static constexpr std::uint32_t kMessages = 50;
  static constexpr std::uint32_t kDepth = 8;
  static constexpr std::uint32_t kSlot = 2048;
  static constexpr std::uint32_t kGrhSize = 40;
  static constexpr std::uint32_t kHeader = 16;  // number and length, then the pattern
  void bring_up(Node& node, qp::QueuePair& qp, qp::QueuePair& to, Node& peer);
  void post_receive(std::size_t slot);
  void send();
  void check(const queue::Completion& completion);

  World& world_;
  Node& from_;
  Node& to_;
  Transport transport_;
  queue::CompletionQueue send_cq_;
  queue::CompletionQueue receive_cq_;
  Arena source_;
  Arena receive_;
  qp::QueuePair* sender_;
  qp::QueuePair* receiver_;
  queue::AddressVector address_;
  std::uint32_t sent_ = 0;
  std::uint32_t completed_ = 0;
  std::uint64_t last_ = 0;
};

}  // namespace verbena::sim
