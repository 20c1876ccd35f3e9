// SPDX-License-Identifier: BSD-2-Clause
#include "rule_checks.hpp"

#include <algorithm>

#include "rule_words.hpp"

namespace verbena::fault {
namespace {

using wire::OpcodeRow;

bool is_of_direction(const Rule& rule, const OpcodeRow& row) {
  if (!rule.direction || rule.is_management()) return true;
  return *rule.direction == Direction::kResponse ? row.response : !row.response;
}

template <typename F>
bool any_opcode(const Rule& rule, F&& f) {
  for (std::size_t opcode = 0; opcode < 256; ++opcode) {
    const OpcodeRow& row = wire::row_of(static_cast<std::uint8_t>(opcode));
    if (row.valid && (!rule.opcodes || rule.opcodes->set.test(opcode)) && f(row)) return true;
  }
  return false;
}

template <typename F>
bool every_opcode(const Rule& rule, F&& f) {
  return !any_opcode(rule, [&](const OpcodeRow& row) { return !f(row); });
}

std::string wrong_about_management(const Rule& rule) {
  if (rule.cm && rule.direction && rule.direction != Direction::kManagement) {
    return "cm= can never be with another direction than management";
  }
  if (!rule.is_management()) return {};
  if (rule.opcodes) {
    return "opcode= can never be with cm= or direction=management: those are datagrams of queue "
           "pair 1";
  }
  if (rule.place != 0 || rule.qp || !rule.program.empty()) {
    return "qp= and program= can never be with cm= or direction=management: the emulator sends "
           "those for all programs";
  }
  if (rule.psn || rule.message != 0) {
    return "psn= and msg= can never be with cm= or direction=management: those are counted by nth=";
  }
  if (rule.action == Action::kNak || rule.action == Action::kComplete) {
    return "nothing answers a datagram of management, and it is nobody's request";
  }
  if (rule.action == Action::kCorrupt && !has_what_it_changes(rule, wire::row_of(0x64))) {
    return "a datagram of management has no " +
           std::string(words::word_of(words::kFields, rule.field)) + " to corrupt";
  }
  return {};
}

// Checks whom a raised event is about.
std::string wrong_about_raised(const Rule& rule) {
  const std::string name = "raise=" + std::string(words::word_of(words::kRaised, rule.raised));
  const bool is_of_qp =
      rule.raised == Raised::kQpFatal || rule.raised == Raised::kPathMigrationError;
  const bool is_of_srq = rule.raised == Raised::kSrqError;
  const bool names_qp = rule.qp || (rule.place != 0 && !rule.is_of_srq);
  if (is_of_qp && !names_qp) return name + " wants qp=, whom it is about, as qp=client:1";
  if (is_of_srq && !rule.is_of_srq) return name + " wants srq=, whom it is about, as srq=server:1";
  if (names_qp && !is_of_qp) return name + " does not happen to a queue pair: leave out qp=";
  if (rule.is_of_srq && !is_of_srq) return name + " happens to no such queue: leave out srq=";
  return {};
}

// Checks an event, which has no packet that a condition could be about.
std::string wrong_about_event(const Rule& rule) {
  const std::string name(words::word_of(words::kActions, rule.action));
  Rule allowed;
  allowed.action = rule.action;
  allowed.program = rule.program;
  allowed.device = rule.device;
  allowed.after = rule.after;
  if (rule.action == Action::kRaise) {
    allowed.raised = rule.raised;
    allowed.qp = rule.qp;
    allowed.place = rule.place;
    allowed.is_of_srq = rule.is_of_srq;
  }
  if (!(rule == allowed)) {
    return name + " happens once: it takes " +
           (rule.action == Action::kRaise ? "qp=, srq=, " : "") +
           "program=, device= and after= only";
  }
  if (rule.action == Action::kRaise) return wrong_about_raised(rule);
  const bool is_of_port = rule.action == Action::kPortDown || rule.action == Action::kPortUp;
  if (!is_of_port && rule.program.empty()) return name + " wants program=, whom it is about";
  if (rule.program == kEmulatorName && rule.action != Action::kKill) {
    return "the emulator carries out the rules: one can kill it, and nothing else";
  }
  return {};
}

// Says whether the first argument of a verb is a queue pair.
bool is_of_queue_pair(std::string_view call) {
  for (const char* const function :
       {"ibv_attach_mcast", "ibv_bind_mw", "ibv_destroy_qp", "ibv_detach_mcast", "ibv_modify_qp",
        "ibv_modify_qp_rate_limit", "ibv_post_recv", "ibv_post_send", "ibv_query_qp"}) {
    if (call == function) return true;
  }
  return false;
}

// Checks a rule about calls, which have no packets but are counted like packets.
std::string wrong_about_call(const Rule& rule) {
  Rule allowed;
  allowed.action = rule.action;
  allowed.error = rule.error;
  allowed.call = rule.call;
  allowed.nth = rule.nth;
  allowed.onwards = rule.onwards;
  allowed.first = rule.first;
  allowed.every = rule.every;
  allowed.program = rule.program;
  allowed.device = rule.device;
  allowed.qp = rule.qp;
  allowed.place = rule.place;
  allowed.ppm = rule.ppm;
  allowed.after = rule.after;
  allowed.until = rule.until;
  if (rule.call.empty()) return "fail= wants call=, which function it is, as call=ibv_post_send";
  if (!(rule == allowed)) {
    return "fail= is about calls: it takes call=, nth=, first=, every=, percent=, qp=, program=, "
           "device=, after= and until= only";
  }
  const bool names_qp = rule.qp || rule.place != 0;
  if (names_qp && !is_of_queue_pair(rule.call)) {
    return std::string(rule.call) + " is not called for a queue pair: program= instead of qp=";
  }
  if (rule.is_of_librdmacm() && !rule.device.empty()) {
    return std::string(rule.call) + " is not called for a device: program= instead of device=";
  }
  return {};
}

// Checks a line, which concerns all packets of a period. One of them may begin it.
std::string wrong_about_line(const Rule& rule) {
  const std::string name(words::word_of(words::kActions, rule.action));
  if (!rule.is_of_line()) {
    return rule.lasts == kNever ? "" : "for= goes with cut and rate= only: until= is there for all";
  }
  if (rule.first != 0 || rule.every != 0 || rule.message != 0 || rule.ppm != 0 ||
      rule.attempt != 1) {
    return name +
           " is for all packets of a time: it takes no first=, every=, msg=, percent= or attempt=";
  }
  return {};
}

std::string wrong_about_unit(const Rule& rule) {
  if (!rule.by_message) return {};
  if (rule.is_management()) {
    return "unit=message can never be with cm= or direction=management: those are single datagrams";
  }
  if (rule.message != 0) return "unit=message can never be with msg=, which is one message";
  if (rule.nth == 0 && rule.first == 0 && rule.every == 0 && rule.ppm == 0) {
    return "unit=message says what nth=, first=, every= or percent= is about: none is there";
  }
  return {};
}

std::string wrong_about_counting(const Rule& rule) {
  if ((rule.nth != 0) + (rule.first != 0) + (rule.every != 0) > 1) {
    return "nth=, first= and every= are one or the other";
  }
  if (rule.qp && rule.place != 0) return "qp= is said twice";
  if (rule.after >= rule.until) return "until= can never come: it is not behind after=";
  if (rule.action == Action::kHold && rule.after >= rule.time) {
    return "nothing can be held: hold= has passed when after= comes";
  }
  const bool holds_back = rule.action == Action::kDelay || rule.action == Action::kHold;
  if (rule.keeps_order && !holds_back) return "order=keep goes with delay= and hold= only";
  if (rule.burst == 0) return {};
  if (rule.ppm == 0) return "burst= wants percent= beside it";
  if (rule.nth != 0 && !rule.onwards) return "burst= can never be with nth=, which is one packet";
  const std::uint64_t rest = 1'000'000 - rule.ppm;
  if (rule.ppm > rest * rule.burst) {
    return "bursts of " + std::to_string(rule.burst) +
           " on average cannot make such a share, as gaps are at least one packet long";
  }
  return {};
}

// Checks that the conditions leave as many packets as the rule counts.
std::string wrong_about_number(const Rule& rule) {
  if (rule.is_of_line() || rule.by_message) return {};
  const std::uint64_t wanted = std::max(rule.nth, rule.every);
  const auto is_request = [](const OpcodeRow& row) { return !row.response; };
  const bool is_of_requests =
      rule.direction == Direction::kRequest || (rule.opcodes && every_opcode(rule, is_request));
  if (rule.psn && is_of_requests && wanted > rule.psn->to - rule.psn->from + 1) {
    return "there is no packet " + std::to_string(wanted) + " of so few PSNs as psn= names";
  }
  const bool is_one = every_opcode(rule, [](const OpcodeRow& row) { return row.starts_message; }) ||
                      every_opcode(rule, [](const OpcodeRow& row) { return row.ends_message; });
  if (rule.message != 0 && rule.opcodes && is_one && wanted > 1) {
    return "one message has one such packet: msg= and nth= can never be together here";
  }
  return {};
}

std::string wrong_about_attempt(const Rule& rule) {
  const auto is_unreliable = [](const OpcodeRow& row) {
    return row.transport == wire::WireTransport::kUc || row.transport == wire::WireTransport::kUd;
  };
  if (rule.attempt > 1 && rule.opcodes && every_opcode(rule, is_unreliable)) {
    return "attempt= can never be there: unreliable queue pairs (UC, UD) repeat nothing";
  }
  return {};
}

// Says whether a packet that the rule acts on has to be sent again.
bool takes(const Rule& rule) {
  switch (rule.action) {
    case Action::kDrop:
    case Action::kCorrupt:
    case Action::kNak:
    case Action::kCut:
      return true;
    default:
      return false;
  }
}

std::string wrong_about_opcodes(const Rule& rule) {
  const auto fits = [&](const OpcodeRow& row) { return is_of_direction(rule, row); };
  if (!any_opcode(rule, fits)) {
    return "opcode=" + rule.opcodes->names.front() + " can never be with direction=" +
           std::string(words::word_of(words::kDirections, *rule.direction));
  }
  const auto begins = [&](const OpcodeRow& row) { return fits(row) && !row.response; };
  if ((rule.message != 0 || rule.by_message) && !any_opcode(rule, begins)) {
    return "messages are counted by requests: one acknowledgement may be of many messages";
  }
  const auto has = [&](const OpcodeRow& row) {
    return fits(row) && has_what_it_changes(rule, row);
  };
  if (any_opcode(rule, has)) return {};
  if (rule.action == Action::kNak) {
    return "nak= is about requests of reliable queue pairs (RC, XRC): nothing else is answered";
  }
  if (rule.action == Action::kComplete) {
    return "complete= is about requests of reliable queue pairs (RC, XRC), by their first packet";
  }
  return "no such packet has a " + std::string(words::word_of(words::kFields, rule.field)) +
         " to corrupt";
}

}  // namespace

bool has_what_it_changes(const Rule& rule, const OpcodeRow& row) {
  using wire::WireTransport;
  if (rule.action == Action::kNak || rule.action == Action::kComplete) {
    const bool is_whole = rule.action == Action::kNak || row.starts_message;
    return row.request && is_whole &&
           (row.transport == WireTransport::kRc || row.transport == WireTransport::kXrc);
  }
  if (rule.action != Action::kCorrupt) return true;
  switch (rule.field) {
    case Field::kQkey:
      return row.deth;
    case Field::kRkey:
      return row.reth || row.atomic_eth;
    case Field::kLength:
      return row.reth;
    case Field::kPayload:
      return row.payload;
    default:
      return true;
  }
}

std::string why_it_never_fires(const Rule& rule) {
  if (rule.is_event()) return wrong_about_event(rule);
  if (!rule.is_of_call() && !rule.call.empty()) return "call= goes with fail= only";
  if (rule.is_of_srq) return "srq= goes with raise=srq-err only: packets are a queue pair's";
  if (rule.is_of_call()) {
    std::string wrong = wrong_about_call(rule);
    return wrong.empty() ? wrong_about_counting(rule) : wrong;
  }
  if (std::string wrong = wrong_about_management(rule); !wrong.empty()) return wrong;
  for (const auto look : {wrong_about_line, wrong_about_unit, wrong_about_counting}) {
    if (std::string wrong = look(rule); !wrong.empty()) return wrong;
  }
  if (rule.is_management()) return {};
  for (const auto look : {wrong_about_opcodes, wrong_about_number, wrong_about_attempt}) {
    if (std::string wrong = look(rule); !wrong.empty()) return wrong;
  }
  return {};
}

std::string why_one_never_fires(std::span<const Rule> rules) {
  for (const Rule& rule : rules) {
    if (rule.attempt < 2) continue;
    const auto takes_before = [&](const Rule& other) { return &other != &rule && takes(other); };
    if (std::ranges::none_of(rules, takes_before)) {
      return "the rule '" + to_string(rule) +
             "' can never fire: attempt=" + std::to_string(rule.attempt) +
             " wants a rule beside it that takes what comes before (drop, corrupt, nak or cut)";
    }
  }
  return {};
}

}  // namespace verbena::fault
