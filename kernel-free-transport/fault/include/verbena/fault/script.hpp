// SPDX-License-Identifier: BSD-2-Clause
// Rules at work on one sending queue pair: which of its packets each rule is about, and what
// becomes of them.
//
// A packet is counted (nth=, first=, every=, burst=) when it is sent for the first time, which for
// one queue pair is an order that no timing changes. When it is repeated it meets the same rules
// only if one of them took it before: then it is another attempt of that packet. One that has
// arrived, and is repeated because its sender goes back or has heard no answer, is left alone. Only
// lines (cut, rate=) do not care how often a packet is sent.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "verbena/base/rule_counters.hpp"
#include "verbena/fault/fate.hpp"
#include "verbena/fault/rule.hpp"

namespace verbena::fault {

// A rule that is in force for a sender.
struct ActiveRule {
  std::uint64_t id = 0;  // of no other rule, ever
  Rule rule{};
  std::uint64_t seed = 0;
  TimeNs since = 0;                  // when it came into force
  RuleCounters* counters = nullptr;  // outlives it; null: nobody counts
  std::uint64_t hash = 0;            // of its text
  bool starts_counting = false;      // from 0
};
ActiveRule activate(std::uint64_t id, Rule rule, std::uint64_t seed, TimeNs since);
bool is_in_time(const ActiveRule& rule, TimeNs now);
// Whether it is about the packet, message or call that it counts as this one.
bool is_counted(const Rule& rule, std::uint64_t place);

// A packet as rules see it.
struct Described {
  PacketName name;
  std::uint8_t opcode = 0;
  std::uint8_t answer = 0;  // of an acknowledgement: 1 << wire::AethKind
  std::uint32_t place = 0;  // of its queue pair among those of the process
  Qpn qp{};
  TimeNs now = 0;
};
Described describe(const PacketName& name, std::span<const std::uint8_t> packet);

// A line of this speed, which a rule has set up.
struct Line {
  std::uint64_t rule = 0;
  std::uint64_t bytes_per_second = 0;
  bool operator==(const Line&) const = default;
};

// What all rules together make of a packet.
struct Verdict {
  bool is_lost = false;
  bool is_doubled = false;
  bool breaks_icrc = false;
  std::vector<Field> changes;  // of what is to be changed
  std::uint8_t mark = 0;       // for its receiver (wire::Bth::mark)
  TimeNs delay_ns = 0;
  TimeNs hold_until = 0;
  std::uint32_t behind = 0;
  bool keeps_order = false;
  std::vector<Line> lines;  // that it goes over
  bool is_taken = false;    // by any of them

  bool arrives() const { return !is_lost && !breaks_icrc && changes.empty() && mark == 0; }
  bool operator==(const Verdict&) const = default;
};
// Changes one field of a packet (BTH .. pad) that has it; kIcrc and fields that it lacks: nothing.
void change(Field field, std::span<std::uint8_t> packet);

class Script {
 public:
  // How far behind the newest packet one may be repeated and still be known.
  static constexpr std::uint64_t kRemembered = 1u << 18;

  // In the order of sending.
  Verdict judge(std::span<const ActiveRule> rules, const Described& packet);
  // Another life of the queue pair: its packets are others.
  void begin_anew() { *this = {}; }

 private:
  // What one rule has counted here.
  struct Count {
    std::uint64_t packets = 0;       // or messages, that it names
    std::uint64_t messages = 0;      // that have begun
    std::uint64_t last_message = 0;  // of which it named a packet
    std::uint64_t burst_place = 0;   // up to where it is known whether a burst is on
    bool is_in_burst = false;
    std::optional<TimeNs> began{};  // of a line
  };
  using Places = std::map<std::uint64_t, std::uint64_t>;  // by rule: as which packet it was counted
  struct Taken {
    std::uint32_t attempts = 0;
    Places places;
    std::uint8_t completion = 0;  // the mark of a request that completes with a status
  };
  using Kind = std::pair<Direction, std::uint32_t>;  // and what it says
  using Key = std::pair<Kind, std::uint64_t>;        // and its number

  bool is_first_time(const Described& packet);
  // As which packet or message of the rule's it counts now; 0: it is none.
  std::uint64_t count(const ActiveRule& rule, const Described& packet);
  // Whether it goes over the line of the rule; `place`: as it counts, 0 if it is a repetition.
  bool is_on_line(const ActiveRule& rule, const Described& packet, std::uint64_t place);
  bool strikes(const ActiveRule& rule, const Described& packet, std::uint64_t place,
               std::uint32_t attempt);
  bool goes_on_in_burst(const ActiveRule& rule, const Described& packet, std::uint64_t place);
  void forget_old(const Kind& kind);

  std::map<std::uint64_t, Count> counts_;  // by rule
  std::map<Kind, std::uint64_t> newest_;
  std::map<Key, Taken> taken_;
};

}  // namespace verbena::fault
