// SPDX-License-Identifier: BSD-2-Clause
// Makes words from rules.
#include <array>
#include <cstdio>

#include "rule_words.hpp"
#include "verbena/base/failing_calls.hpp"
#include "verbena/fault/rule.hpp"

namespace verbena::fault {
namespace {

using words::word_of;

// Uses the largest unit that gives a whole number.
std::string time_text(TimeNs ns) {
  constexpr std::pair<TimeNs, const char*> kUnits[] = {
      {1'000'000'000, "s"}, {1'000'000, "ms"}, {1'000, "us"}};
  for (const auto& [unit, name] : kUnits) {
    if (ns % unit == 0) return std::to_string(ns / unit) + name;
  }
  return std::to_string(ns) + "ns";
}

std::string rate_text(std::uint64_t bytes_per_second) {
  const std::uint64_t bits = bytes_per_second * 8;
  for (const auto& [name, unit] : words::kRates) {
    const auto whole = static_cast<std::uint64_t>(unit);
    if (bits % whole == 0) return std::to_string(bits / whole) + std::string(name);
  }
  return {};
}

std::string percent_text(std::uint32_t ppm) {
  std::array<char, 24> text;
  std::snprintf(text.data(), text.size(), "%u.%04u", ppm / 10'000, ppm % 10'000);
  std::string share(text.data());
  share.erase(share.find_last_not_of('0') + 1);
  if (share.back() == '.') share.pop_back();
  return share;
}

std::string qp_text(Qpn qp) {
  std::array<char, 16> text;
  std::snprintf(text.data(), text.size(), "0x%06x", qp.value());
  return text.data();
}

std::string action_text(const Rule& r) {
  const std::string name(word_of(words::kActions, r.action));
  switch (r.action) {
    case Action::kDrop:
    case Action::kDuplicate:
    case Action::kCut:
    case Action::kPortDown:
    case Action::kPortUp:
    case Action::kKill:
    case Action::kStop:
    case Action::kCont:
      return name;
    case Action::kCorrupt:
      return name + "=" + std::string(word_of(words::kFields, r.field));
    case Action::kDelay:
    case Action::kHold:
      return name + "=" + time_text(r.time);
    case Action::kReorder:
      return name + "=" + std::to_string(r.behind);
    case Action::kNak:
      return name + "=" + std::string(word_of(words::kNaks, r.nak));
    case Action::kComplete:
      return name + "=" + std::string(word_of(words::kCompletions, r.completion));
    case Action::kRaise:
      return name + "=" + std::string(word_of(words::kRaised, r.raised));
    case Action::kFail:
      return name + "=" + std::string(error_of_value(r.error)->name);
    case Action::kRate:
      return name + "=" + rate_text(r.bytes_per_second);
  }
  return name;
}

}  // namespace

std::string to_string(const Rule& r) {
  std::string text = action_text(r);
  const auto add = [&text](const char* key, const std::string& value) {
    text += std::string(" ") + key + "=" + value;
  };
  const auto add_count = [&add](const char* key, std::uint64_t value) {
    if (value != 0) add(key, std::to_string(value));
  };
  if (!r.call.empty()) add("call", std::string(r.call));
  if (r.opcodes) {
    std::string names;
    for (const std::string& name : r.opcodes->names) names += (names.empty() ? "" : ",") + name;
    add("opcode", names);
  }
  if (r.direction) add("direction", std::string(word_of(words::kDirections, *r.direction)));
  if (r.cm) add("cm", std::string(word_of(words::kCmMessages, *r.cm)));
  if (r.nth != 0) add("nth", std::to_string(r.nth) + (r.onwards ? "+" : ""));
  add_count("first", r.first);
  add_count("every", r.every);
  if (r.by_message) add("unit", "message");
  if (r.psn) {
    add("psn", std::to_string(r.psn->from) +
                   (r.psn->to == r.psn->from ? "" : "-" + std::to_string(r.psn->to)));
  }
  add_count("msg", r.message);
  if (r.attempt != 1) add("attempt", r.attempt == 0 ? "any" : std::to_string(r.attempt));
  if (r.qp) add("qp", qp_text(*r.qp));
  if (r.place != 0) {
    add(r.is_of_srq ? "srq" : "qp", r.program + ":" + std::to_string(r.place));
  } else if (!r.program.empty()) {
    add("program", r.program);
  }
  if (!r.device.empty()) add("device", r.device);
  if (r.ppm != 0) add("percent", percent_text(r.ppm));
  add_count("burst", r.burst);
  if (r.after != 0) add("after", time_text(r.after));
  if (r.until != kNever) add("until", time_text(r.until));
  if (r.lasts != kNever) add("for", time_text(r.lasts));
  if (r.keeps_order) add("order", "keep");
  return text;
}

bool is_called(std::string_view program, std::string_view name) {
  return program.substr(0, kProgramNameMost) == name.substr(0, kProgramNameMost);
}

}  // namespace verbena::fault
