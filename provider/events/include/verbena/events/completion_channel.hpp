// SPDX-License-Identifier: BSD-2-Clause
// Completion events of one channel (ibv_comp_channel), shared by the queues that use it. Owned by
// those queues together; any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "verbena/events/event_pipe.hpp"
#include "verbena/events/wait_set.hpp"

namespace verbena::provider {

struct CompletionChannel {
  EventPipe pipe;
  WaitSet wakers;                        // of the blocked reader
  std::atomic<std::int32_t> armed{0};    // queues that wait to tell of a completion
  std::atomic<bool> has_blocked{false};  // its read might, when that was asked last
};

}  // namespace verbena::provider
