// SPDX-License-Identifier: BSD-2-Clause
// Applies rules to one sending queue pair: which of its packets each rule is about, and what
// happens to them.
//
// A packet is counted (nth=, first=, every=, burst=) when it is sent for the first time, in an
// order that no timing changes. A repeated packet meets the same rules only if one of them took it
// before: then it is another attempt of that packet. A packet that has arrived, and is repeated
// because its sender goes back or got no answer, is left alone. Only lines (cut, rate=) ignore how
// often a packet is sent.
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
  std::uint64_t id = 0;  // never used by another rule
  Rule rule{};
  std::uint64_t seed = 0;
  TimeNs since = 0;                  // when it came into force
  RuleCounters* counters = nullptr;  // outlive the rule; null: no counters
  std::uint64_t hash = 0;            // hash of the rule's text
  bool starts_counting = false;      // resets the counters
};
ActiveRule activate(std::uint64_t id, Rule rule, std::uint64_t seed, TimeNs since);
bool is_in_time(const ActiveRule& rule, TimeNs now);
// Says whether the rule acts on the packet, message or call with this count.
bool is_counted(const Rule& rule, std::uint64_t place);

// A packet as rules see it.
struct Described {
  PacketName name;
  std::uint8_t opcode = 0;
  std::uint8_t answer = 0;  // for an acknowledgement: 1 << wire::AethKind
  std::uint32_t psns = 1;   // a READ request takes one for each packet of the data
  bool continues = false;   // asks for more data of a READ that has begun
  std::uint32_t place = 0;  // the queue pair is the process's n-th
  Qpn qp{};
  TimeNs now = 0;
};
// `mtu` is the path MTU of the sender in bytes.
Described describe(const PacketName& name, std::span<const std::uint8_t> packet, std::uint32_t mtu);

// A line with this speed, which a rule has set up.
struct Line {
  std::uint64_t rule = 0;
  std::uint64_t bytes_per_second = 0;
  bool operator==(const Line&) const = default;
};

// What all rules together do to a packet.
struct Verdict {
  bool is_lost = false;
  bool is_doubled = false;
  bool breaks_icrc = false;
  std::vector<Field> changes;  // fields to change
  std::uint8_t mark = 0;       // mark for the receiver (wire::Bth::mark)
  TimeNs delay_ns = 0;
  TimeNs hold_until = 0;
  std::uint32_t behind = 0;
  bool keeps_order = false;
  std::vector<Line> lines;  // lines that the packet crosses
  bool is_taken = false;    // some rule acted

  bool arrives() const { return !is_lost && !breaks_icrc && changes.empty() && mark == 0; }
  bool operator==(const Verdict&) const = default;
};
// Changes one field of a packet (BTH .. pad). Does nothing for kIcrc and for fields that the packet
// lacks.
void change(Field field, std::span<std::uint8_t> packet);

class Script {
 public:
  // How far behind the newest packet a repeated packet is still recognised.
  static constexpr std::uint64_t kRemembered = 1u << 18;

  // Judges packets in the order of sending.
  Verdict judge(std::span<const ActiveRule> rules, const Described& packet);
  // Starts over for another life of the queue pair, whose packets are other packets.
  void begin_anew() { *this = {}; }

 private:
  // What one rule has counted here.
  struct Count {
    std::uint64_t packets = 0;       // packets or messages that meet the conditions
    std::uint64_t messages = 0;      // messages that have begun
    std::uint64_t last_message = 0;  // the last one that had such a packet
    std::uint64_t burst_place = 0;   // the last count for which `is_in_burst` is known
    bool is_in_burst = false;
    std::optional<TimeNs> began{};  // when the line began
  };
  using Places = std::map<std::uint64_t, std::uint64_t>;  // the packet's count, by rule
  struct Taken {
    std::uint32_t attempts = 0;
    Places places;
    std::uint8_t completion = 0;  // the mark if the request completes with a status
  };
  using Kind = std::pair<Direction, std::uint32_t>;  // direction and content
  using Key = std::pair<Kind, std::uint64_t>;        // kind and number

  bool is_first_time(const Described& packet);
  // Counts the packet for a rule. Returns its number among the rule's packets or messages; 0: it
  // does not belong to the rule.
  std::uint64_t count(const ActiveRule& rule, const Described& packet);
  // Says whether the packet crosses the rule's line. `place` is its count, or 0 for a repetition.
  bool is_on_line(const ActiveRule& rule, const Described& packet, std::uint64_t place);
  bool strikes(const ActiveRule& rule, const Described& packet, std::uint64_t place,
               std::uint32_t attempt);
  bool goes_on_in_burst(const ActiveRule& rule, const Described& packet, std::uint64_t place);
  void forget_old(const Kind& kind);

  std::map<std::uint64_t, Count> counts_;  // one for each rule
  std::map<Kind, std::uint64_t> newest_;   // the last number that a packet takes
  std::map<Key, Taken> taken_;
};

}  // namespace verbena::fault
