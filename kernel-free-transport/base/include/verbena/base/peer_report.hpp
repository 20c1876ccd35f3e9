// SPDX-License-Identifier: BSD-2-Clause
// What is known about the process behind a queue pair that does not answer. Only the emulator of
// both processes knows it, so both must be on one host. The emulator's messages have these numbers.
#pragma once

#include <cstdint>
#include <string>

namespace verbena {

struct PeerReport {
  enum class Standing : std::uint8_t {
    kUnknown = 0,  // no answer is possible; perhaps at another emulator
    kRuns = 1,
    kStopped = 2,  // stopped by a signal or a debugger
    kEnded = 3,
    kClosed = 4,    // lives, but has closed the device
    kNobody = 5,    // no process has or had queue pairs with such numbers
    kNowhere = 6,   // no device has the address
    kAsked = 7,     // asked for, but not known yet; never in a message
    kPortDown = 8,  // a port on the way is DOWN; `name` is its device
  };
  enum class QueuePair : std::uint8_t {
    kUnknown = 0,
    kNone = 1,
    kNotReady = 2,
    kReady = 3,
    kError = 4,
  };

  Standing standing = Standing::kUnknown;
  QueuePair queue_pair = QueuePair::kUnknown;
  std::uint32_t connected_to = 0;  // the QPN that a ready queue pair is connected to; 0: unknown
  bool has_unread = false;         // the process has not read all that was sent to it
  bool is_own_process = false;     // the peer's process is the one that asks
  std::uint32_t pid = 0;
  std::string name;
};

}  // namespace verbena
