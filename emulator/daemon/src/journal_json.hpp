// SPDX-License-Identifier: BSD-2-Clause
// Events as the JSON objects that `verbena events` shows (cli/share/events.schema.json), each in
// one line and without its number. Pure but for the clock.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/control/fault_messages.hpp"
#include "verbena/control/journal_ring.hpp"
#include "verbena/control/messages.hpp"

namespace verbena::daemon {

// Whom an event is about.
struct JournalSource {
  std::string device;
  std::string program;
  std::uint32_t pid = 0;
};

// How a context has ended.
struct ContextEnd {
  enum class How : std::uint8_t { kClosed, kExited, kReplaced, kDied };
  How how = How::kDied;
  int signal = 0;  // of which its process has died; 0: not known
};

std::string json_of_up(const std::string& version, std::uint32_t pid);
std::string json_of_down(const std::string& reason);
std::string json_of_opened(const JournalSource& source, std::uint32_t slot);
std::string json_of_end(const JournalSource& source, std::uint32_t slot, const ContextEnd& end);
// Of a queue pair; not of the ends that a ring tells.
std::string json_of(const JournalSource& source, const control::JournalRecord& record,
                    const std::string& text);
// `source`: whose; null: events that are kept no more.
std::string json_of_lost(std::uint64_t count, const JournalSource* source);
std::string json_of_port(const control::PortEvent& event);
// What `verbena fault` asked for, with the seed that it got.
std::string json_of_fault(const control::ChangeFault& change, const control::FaultChanged& changed);
// A rule has let something happen to so many ports or processes.
std::string json_of_rule(const std::string& rule, const std::string& device, std::uint64_t matched);

}  // namespace verbena::daemon
