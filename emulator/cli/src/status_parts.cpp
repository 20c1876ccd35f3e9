// SPDX-License-Identifier: BSD-2-Clause
#include "status_parts.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "verbena/control/journal_messages.hpp"
#include "verbena/control/status_messages.hpp"

namespace verbena::cli {

using control::Error;
using control::Outcome;
using control::StatusPart;

namespace {

// In this time a program that is at work posts or receives something.
constexpr std::chrono::milliseconds kBetweenLooks{100};

// Reads all events that the emulator keeps.
Outcome<control::Done> read_events(Emulator& emulator,
                                   const std::function<void(const std::string&)>& take) {
  auto page = emulator.channel.call<control::JournalText>(control::JournalQuery{});
  for (; page;) {
    take(page->text);
    if (page->last) return control::Done{};
    const auto in = emulator.channel.receive(control::kDefaultTimeoutMs);
    if (!in) return Failure<Error>{in.error()};
    page = control::decode<control::JournalText>(in->payload);
  }
  return Failure<Error>{page.error()};
}

// Returns the time of day in seconds.
double clock() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace

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
  Waits earlier;
  Waits now;
  const auto look = [&](Waits& waits) {
    return read_status(emulator, false,
                       [&](StatusPart part, const std::string& text) { waits.take(part, text); });
  };
  auto read = look(earlier);
  if (read) {
    std::this_thread::sleep_for(kBetweenLooks);
    read = look(now);
  }
  if (!read) return Failure<Error>{read.error()};
  (void)read_events(emulator, [&](const std::string& lines) { now.take_events(lines, clock()); });
  return now.found(earlier);
}

}  // namespace verbena::cli
