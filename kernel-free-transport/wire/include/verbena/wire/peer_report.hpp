// SPDX-License-Identifier: BSD-2-Clause
// What is known about the process behind a queue pair that does not answer. Only the emulator of
// both processes knows it, so both must be on one host.
#pragma once

#include <array>
#include <cstdint>

namespace verbena::wire {

struct PeerReport {
  enum class Standing : std::uint8_t {
    kUnknown,  // no answer is possible
    kAsked,    // asked for, but not known yet
    kRuns,
    kStopped,  // stopped by a signal or a debugger
    kEnded,
    kClosed,   // lives, but has closed the device
    kNobody,   // no process has or had queue pairs with such numbers
    kNowhere,  // no device has the address
  };
  enum class QueuePair : std::uint8_t { kUnknown, kNone, kNotReady, kReady, kError };

  Standing standing = Standing::kUnknown;
  QueuePair queue_pair = QueuePair::kUnknown;
  std::uint32_t connected_to = 0;  // the QPN that a ready queue pair is connected to; 0: unknown
  bool has_unread = false;         // the process has not read all that was sent to it
  bool is_own_process = false;     // the peer's process is this one
  std::uint32_t pid = 0;
  std::array<char, 16> name{};  // zero-terminated
};

}  // namespace verbena::wire
