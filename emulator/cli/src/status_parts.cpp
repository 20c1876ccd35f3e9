// SPDX-License-Identifier: BSD-2-Clause
#include "status_parts.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

#include "verbena/control/status_messages.hpp"

namespace verbena::cli {

using control::Error;
using control::Outcome;
using control::StatusPart;

Outcome<control::Done> read_status(Emulator& emulator, bool resets, const TakePart& take) {
  auto part = emulator.channel.call<control::StatusText>(control::StatusQuery{resets});
  while (part && part->part != StatusPart::kEnd) {
    take(part->part, part->text);
    const auto in = emulator.channel.receive(control::kDefaultTimeoutMs);
    if (!in) return Failure<Error>{in.error()};
    if (in->type() == control::MessageType::kRefused) {
      return Failure<Error>{control::refusal(*in)};
    }
    part = control::decode<control::StatusText>(in->payload);
  }
  if (!part) return Failure<Error>{part.error()};
  take(part->part, part->text);
  return control::Done{};
}

Outcome<std::vector<RuleCount>> read_rules(Emulator& emulator) {
  std::vector<RuleCount> rules;
  const auto read = read_status(emulator, false, [&](StatusPart part, const std::string& text) {
    if (part != StatusPart::kRules) return;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const auto rule = nlohmann::json::parse(line, nullptr, false);
      if (rule.is_discarded()) continue;
      rules.push_back({rule["rule"], rule["matched"], rule["fired"]});
    }
  });
  if (!read) return Failure<Error>{read.error()};
  return rules;
}

Outcome<std::vector<Wait>> read_waits(Emulator& emulator) {
  Waits waits;
  const auto read = read_status(
      emulator, false, [&](StatusPart part, const std::string& text) { waits.take(part, text); });
  if (!read) return Failure<Error>{read.error()};
  return waits.found();
}

}  // namespace verbena::cli
