// SPDX-License-Identifier: BSD-2-Clause
// What a FaultLink knows about the packets that it holds back, and about their queue pairs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "verbena/base/types.hpp"
#include "verbena/fault/flow.hpp"
#include "verbena/fault/hash.hpp"
#include "verbena/fault/script.hpp"
#include "verbena/link/link.hpp"
#include "verbena/link/slow_lines.hpp"
#include "verbena/wire/datagram.hpp"

namespace verbena::link {

using wire::TxBatch;

// A packet on its way, and what is to become of it.
struct Passing {
  std::span<const std::uint8_t> bytes;
  const wire::Destination& destination;
  Qpn flow;
  std::optional<Damage> damage;
  const TxBatch::Packet& before;  // the packet as it was in its batch
  bool is_ruled = false;          // a rule changed it, repeated it or held it back
};

// The line that a packet waits for: that of a rule, or that of --rate.
struct LineWait {
  TimeNs carried = 0;                  // when the line has carried it; 0: it waits for none
  std::uint64_t rule = 0;              // the rule's id; 0: --rate
  std::uint64_t bytes_per_second = 0;  // of --rate
  bool is_own = false;                 // the line is the flow's own
};

// What a packet waits for, beside its time.
struct Wait {
  std::uint64_t name = 0;    // hash_of() its name if a rule holds it back
  std::uint32_t behind = 0;  // how many packets of its flow still have to overtake it
  TimeNs earliest = 0;       // when it may go once they have; 0: it waits for none
  bool is_copy = false;
  bool for_room = false;  // the inner link did not take it
  LineWait line{};
};

struct Held {
  TimeNs due = 0;
  std::uint64_t sequence = 0;  // first in, first out among packets that are due at once
  Qpn flow;
  wire::Destination destination;
  std::optional<Damage> damage;
  TxBatch::Packet before{};
  std::vector<std::uint8_t> bytes;
  bool is_ruled = false;
  Wait wait{};

  // Orders a heap that has the earliest on top.
  bool operator<(const Held& other) const {
    return std::pair(due, sequence) > std::pair(other.due, other.sequence);
  }
  Passing passing() const { return {bytes, destination, flow, damage, before, is_ruled}; }
};

// Returns a hash that is never 0.
inline std::uint64_t hash_of(const fault::PacketName& name) {
  return fault::hash_of(
             {name.sender, static_cast<std::uint64_t>(name.direction), name.says, name.number}) |
         1u;
}

// What is known about one sending queue pair.
struct FlowState {
  fault::Flow flow;
  fault::Script script{};
  std::uint32_t created = 0;  // which queue pair it is, and which of its lives
  std::uint32_t lives = 0;
  SlowLine line{};
  TimeNs carried = 0;         // when lines have carried its packets; none passes another one there
  TimeNs not_before = 0;      // new packets wait until then for those that are held back
  std::uint32_t waiting = 0;  // packets that still have to be overtaken
};

// A flow whose packets wait because the inner link did not take them. Later ones wait behind them,
// so that they keep their order.
struct FullFlow {
  TimeNs until = 0;           // when the waiting packets are offered again
  std::uint32_t waiting = 0;  // how many there are
};

}  // namespace verbena::link
