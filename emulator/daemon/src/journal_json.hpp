// SPDX-License-Identifier: BSD-2-Clause
// Writes events as the JSON objects that `verbena events` shows (cli/share/events.schema.json),
// each in one line and without its number. Pure except for the clock.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/control/fault_messages.hpp"
#include "verbena/control/journal_ring.hpp"
#include "verbena/control/messages.hpp"

namespace verbena::daemon {

// The device and the process that an event is about.
struct JournalSource {
  std::string device;
  std::string program;
  std::uint32_t pid = 0;
};

// How a context has ended.
struct ContextEnd {
  // kLeft: the process has closed the context's descriptors, and nothing else.
  enum class How : std::uint8_t { kClosed, kExited, kReplaced, kLeft, kDied };
  How how = How::kDied;
  int signal = 0;  // signal that has ended its process; 0: not known
};

std::string json_of_up(const std::string& version, std::uint32_t pid);
std::string json_of_down(const std::string& reason);
std::string json_of_opened(const JournalSource& source, std::uint32_t slot);
std::string json_of_end(const JournalSource& source, std::uint32_t slot, const ContextEnd& end);
// Writes an event of a queue pair. The record must not be one of a context's end.
std::string json_of(const JournalSource& source, const control::JournalRecord& record,
                    const std::string& text);
// `source` is the context whose events were lost; null: events are no longer kept.
std::string json_of_lost(std::uint64_t count, const JournalSource* source);
std::string json_of_port(const control::PortEvent& event);
// Writes what `verbena fault` asked for, with the seed that it got.
std::string json_of_fault(const control::ChangeFault& change, const control::FaultChanged& changed);
// Writes that a rule has acted on `matched` ports, processes or queues.
std::string json_of_rule(const std::string& rule, const std::string& device, std::uint64_t matched);

}  // namespace verbena::daemon
