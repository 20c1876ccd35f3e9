// SPDX-License-Identifier: BSD-2-Clause
// The completion events of one channel (ibv_comp_channel). The completion queues that use the
// channel own this together; any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "verbena/events/event_pipe.hpp"
#include "verbena/events/wait_set.hpp"

namespace verbena::provider {

struct CompletionChannel {
  EventPipe pipe;
  WaitSet wakers;                        // wakes the blocked reader
  std::atomic<std::int32_t> armed{0};    // completion queues that are armed
  std::atomic<bool> has_blocked{false};  // a read would have blocked when last asked
};

}  // namespace verbena::provider
