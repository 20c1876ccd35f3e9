// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/fault/script.hpp"

#include <algorithm>

#include "rule_checks.hpp"
#include "verbena/base/random.hpp"
#include "verbena/fault/hash.hpp"
#include "verbena/wire/aeth.hpp"
#include "verbena/wire/bth.hpp"
#include "verbena/wire/bytes.hpp"
#include "verbena/wire/reth.hpp"

namespace verbena::fault {
namespace {

bool names_opcode(const Rule& rule, const Described& packet) {
  if (!rule.opcodes) return true;
  if (!rule.opcodes->set.test(packet.opcode)) return false;
  return packet.answer == 0 || (rule.opcodes->answers & packet.answer) != 0;
}

// Checks all conditions that do not count packets.
bool is_about(const ActiveRule& active, const Described& packet) {
  const Rule& rule = active.rule;
  const bool is_management = packet.name.direction == Direction::kManagement;
  if (rule.is_management() != is_management || !is_in_time(active, packet.now)) return false;
  if (is_management) {
    return !rule.cm || packet.name.says == (0x07u << 24 | 0x03u << 16 | *rule.cm);
  }
  if (rule.direction && *rule.direction != packet.name.direction) return false;
  if (rule.place != 0 && rule.place != packet.place) return false;
  if (rule.qp && !(*rule.qp == packet.qp)) return false;
  if (rule.psn && (packet.name.number < rule.psn->from || packet.name.number > rule.psn->to)) {
    return false;
  }
  if (rule.action == Action::kComplete && packet.continues) return false;
  return names_opcode(rule, packet) && has_what_it_changes(rule, wire::row_of(packet.opcode));
}

Random draw(const ActiveRule& active, const Described& packet, std::uint64_t what) {
  return Random(hash_of({active.seed, active.hash, packet.name.sender, what}));
}

// Returns the mark for a status. A status that a NAK causes uses that NAK, so that the receiver
// ends in the right state.
std::uint8_t mark_of(Completion completion) {
  switch (completion) {
    case Completion::kRemoteInvalidRequest:
      return static_cast<std::uint8_t>(Nak::kInvalid);
    case Completion::kRemoteAccess:
      return static_cast<std::uint8_t>(Nak::kAccess);
    case Completion::kRemoteOperation:
      return static_cast<std::uint8_t>(Nak::kOperation);
    default:
      return static_cast<std::uint8_t>(wire::kStatusCodes + static_cast<unsigned>(completion));
  }
}

void add_to(Verdict& verdict, const ActiveRule& active) {
  const Rule& rule = active.rule;
  switch (rule.action) {
    case Action::kDrop:
      verdict.is_lost = true;
      break;
    case Action::kDuplicate:
      verdict.is_doubled = true;
      break;
    case Action::kCorrupt:
      if (rule.field == Field::kIcrc) {
        verdict.breaks_icrc = true;
      } else {
        verdict.changes.push_back(rule.field);
      }
      break;
    case Action::kDelay:
      verdict.delay_ns += rule.time;
      break;
    case Action::kHold:
      verdict.hold_until = std::max(verdict.hold_until, active.since + rule.time);
      break;
    case Action::kReorder:
      verdict.behind = std::max(verdict.behind, rule.behind);
      break;
    case Action::kNak:
      verdict.mark = static_cast<std::uint8_t>(rule.nak);
      break;
    case Action::kComplete:
      verdict.mark = mark_of(rule.completion);
      break;
    case Action::kCut:
      verdict.is_lost = true;
      break;
    case Action::kRate:
      verdict.lines.push_back({active.id, rule.bytes_per_second});
      break;
    default:
      break;
  }
  verdict.keeps_order = verdict.keeps_order || rule.keeps_order;
  verdict.is_taken = true;
}

}  // namespace

ActiveRule activate(std::uint64_t id, Rule rule, std::uint64_t seed, TimeNs since) {
  const std::uint64_t hash = hash_of(to_string(rule));
  return {id, std::move(rule), seed, since, nullptr, hash};
}

bool is_in_time(const ActiveRule& active, TimeNs now) {
  const Rule& rule = active.rule;
  const TimeNs age = now - std::min(active.since, now);
  const TimeNs until = rule.action == Action::kHold ? std::min(rule.until, rule.time) : rule.until;
  return age >= rule.after && age < until;
}

bool is_counted(const Rule& rule, std::uint64_t place) {
  if (rule.nth != 0 && (rule.onwards ? place < rule.nth : place != rule.nth)) return false;
  if (rule.first != 0 && place > rule.first) return false;
  return rule.every == 0 || place % rule.every == 0;
}

Described describe(const PacketName& name, std::span<const std::uint8_t> packet,
                   std::uint32_t mtu) {
  Described described;
  described.name = name;
  described.opcode = wire::BthView(packet.data()).opcode();
  const wire::OpcodeRow& row = wire::row_of(described.opcode);
  if (row.operation == wire::Operation::kAcknowledge && packet.size() >= row.header_bytes) {
    const auto kind = wire::Aeth::read_from(packet.data() + row.aeth_at).kind();
    described.answer = static_cast<std::uint8_t>(1u << static_cast<unsigned>(kind));
  }
  const bool is_read = row.operation == wire::Operation::kReadRequest;
  if (is_read && packet.size() >= row.header_bytes && mtu != 0) {
    const std::uint32_t length = wire::Reth::read_from(packet.data() + row.reth_at).length;
    described.psns = std::max(length / mtu + (length % mtu != 0 ? 1 : 0), 1u);
  }
  return described;
}

// Chooses values that the receiver cannot take for those of another packet that it waits for.
void change(Field field, std::span<std::uint8_t> packet) {
  constexpr std::uint32_t kFarAhead = 1u << 22;
  std::uint8_t* const at = packet.data();
  const wire::BthView bth(at);
  const wire::OpcodeRow& row = wire::row_of(bth.opcode());
  const auto flip = [](std::uint8_t* byte, std::uint8_t bits) {
    *byte = static_cast<std::uint8_t>(*byte ^ bits);
  };
  switch (field) {
    case Field::kIcrc:
      return;
    case Field::kOpcode:
      at[0] = static_cast<std::uint8_t>(at[0] | 0x1f);
      return;
    case Field::kPkey:
      return flip(at + 3, 1);
    case Field::kPsn:
      return wire::store_be32(at + 8, std::uint32_t{at[8]} << 24 | (bth.psn() + kFarAhead).value());
    case Field::kQkey:
      if (row.deth) flip(at + row.deth_at + 3, 1);
      return;
    case Field::kRkey:
      if (row.reth) flip(at + row.reth_at + 11, 1);
      if (row.atomic_eth) flip(at + row.atomic_eth_at + 11, 1);
      return;
    case Field::kLength:
      if (row.reth) flip(at + row.reth_at + 15, 1);
      return;
    case Field::kPayload:
      if (packet.size() > row.header_bytes) flip(at + row.header_bytes, 1);
      return;
  }
}

bool Script::is_first_time(const Described& packet) {
  const Kind kind{packet.name.direction, packet.name.says};
  // A READ that is repeated from its middle is not a new one.
  const std::uint64_t last = packet.name.number + packet.psns - 1;
  const auto [known, is_new] = newest_.try_emplace(kind, last);
  if (is_new) return true;
  if (packet.name.number <= known->second) return false;
  known->second = last;
  return true;
}

std::uint64_t Script::count(const ActiveRule& active, const Described& packet) {
  Count& counted = counts_[active.id];
  const wire::OpcodeRow& row = wire::row_of(packet.opcode);
  const bool begins =
      packet.name.direction == Direction::kRequest && row.starts_message && !packet.continues;
  if (begins && is_in_time(active, packet.now)) ++counted.messages;
  if (!is_about(active, packet)) return 0;
  const bool is_request = packet.name.direction == Direction::kRequest;
  const std::uint64_t wanted = active.rule.message;
  if (wanted != 0 && (!is_request || counted.messages != wanted)) return 0;
  if (!active.rule.by_message) return ++counted.packets;
  if (!is_request) return 0;
  if (counted.last_message != counted.messages) ++counted.packets;
  counted.last_message = counted.messages;
  return counted.packets;
}

bool Script::is_on_line(const ActiveRule& active, const Described& packet, std::uint64_t place) {
  const Rule& rule = active.rule;
  if (!is_about(active, packet)) return false;
  if (active.counters != nullptr) active.counters->match();
  if (rule.nth == 0 && rule.lasts == kNever) return true;
  std::optional<TimeNs>& began = counts_[active.id].began;
  if (!began && place >= std::max<std::uint64_t>(rule.nth, 1)) began = packet.now;
  return began && packet.now - *began < rule.lasts;
}

// A chain of two states (Gilbert, Elliott): it stays in the one that strikes for `burst` packets on
// average, and is in it for the requested share of all packets.
bool Script::goes_on_in_burst(const ActiveRule& active, const Described& packet,
                              std::uint64_t place) {
  const Rule& rule = active.rule;
  bool& is_in = counts_[active.id].is_in_burst;
  std::uint64_t& known_to = counts_[active.id].burst_place;
  if (place == known_to) return is_in;  // another packet of a message
  known_to = place;
  Random random = draw(active, packet, place);
  if (place == 1) {
    is_in = random.chance(rule.ppm);
  } else if (is_in) {
    is_in = !random.chance(1'000'000 / rule.burst);
  } else {
    const std::uint64_t rest = 1'000'000 - rule.ppm;
    is_in = random.chance(static_cast<std::uint32_t>(
        rule.ppm * std::uint64_t{1'000'000} / std::max<std::uint64_t>(rest * rule.burst, 1)));
  }
  return is_in;
}

bool Script::strikes(const ActiveRule& active, const Described& packet, std::uint64_t place,
                     std::uint32_t attempt) {
  const Rule& rule = active.rule;
  // Called once for each packet, in their order.
  const bool is_in_burst =
      rule.burst != 0 && attempt == 1 && goes_on_in_burst(active, packet, place);
  if (rule.attempt != 0 && rule.attempt != attempt) return false;
  if (active.counters != nullptr) active.counters->match();
  if (!is_counted(rule, place)) return false;
  if (rule.burst != 0 && attempt == 1) return is_in_burst;
  if (rule.ppm == 0) return true;
  const std::uint64_t what = rule.by_message
                                 ? hash_of({place, attempt})
                                 : hash_of({static_cast<std::uint64_t>(packet.name.direction),
                                            packet.name.says, packet.name.number, attempt});
  return draw(active, packet, what).chance(rule.ppm);
}

void Script::forget_old(const Kind& kind) {
  const std::uint64_t newest = newest_.at(kind);
  for (auto at = taken_.lower_bound({kind, 0}); at != taken_.end() && at->first.first == kind;) {
    if (at->first.second + kRemembered >= newest) break;
    at = taken_.erase(at);
  }
}

Verdict Script::judge(std::span<const ActiveRule> rules, const Described& packet) {
  Verdict verdict;
  const Kind kind{packet.name.direction, packet.name.says};
  const bool is_first = is_first_time(packet);
  const auto known = is_first ? taken_.end() : taken_.find({kind, packet.name.number});
  Places places;
  std::uint32_t attempt = 1;
  std::uint8_t completion = 0;
  if (is_first) {
    for (const ActiveRule& active : rules) {
      if (const std::uint64_t place = count(active, packet); place != 0) places[active.id] = place;
    }
  } else if (known != taken_.end()) {
    places = known->second.places;
    attempt = known->second.attempts + 1;
    completion = known->second.completion;
  }
  for (const ActiveRule& active : rules) {
    const auto found = places.find(active.id);
    const std::uint64_t place = found == places.end() ? 0 : found->second;
    if (active.rule.is_of_line()) {
      if (!is_on_line(active, packet, is_first ? place : 0)) continue;
    } else if (place == 0 || !is_in_time(active, packet.now) ||
               !strikes(active, packet, place, attempt)) {
      continue;
    }
    if (active.counters != nullptr) active.counters->fire();
    add_to(verdict, active);
    if (active.rule.action == Action::kComplete) completion = verdict.mark;
  }
  // A request keeps its mark whenever it is sent, because its answer may be lost or late.
  if (completion != 0) {
    verdict.mark = completion;
    verdict.is_taken = true;
  }
  if (!is_first && known == taken_.end()) return verdict;
  if (verdict.arrives()) {
    if (known != taken_.end()) taken_.erase(known);
  } else {
    taken_[{kind, packet.name.number}] = {attempt, std::move(places), completion};
    forget_old(kind);
  }
  return verdict;
}

}  // namespace verbena::fault
