// SPDX-License-Identifier: BSD-2-Clause
// What is known of the process behind a queue pair that does not answer. Only of one on the same
// host, from whoever administers both.
#pragma once

#include <array>
#include <cstdint>

namespace verbena::wire {

struct PeerReport {
  enum class Standing : std::uint8_t {
    kUnknown,  // nobody can tell
    kAsked,    // and has not told yet
    kRuns,
    kStopped,  // by a signal or a debugger
    kEnded,
  };
  enum class QueuePair : std::uint8_t { kUnknown, kNone, kNotReady, kReady, kError };

  Standing standing = Standing::kUnknown;
  QueuePair queue_pair = QueuePair::kUnknown;
  std::uint32_t connected_to = 0;  // the QPN that a ready queue pair is connected to; 0: unknown
  bool has_unread = false;         // what was sent to the process lies there and was not read yet
  std::uint32_t pid = 0;
  std::array<char, 16> name{};  // ends with a zero
};

}  // namespace verbena::wire
