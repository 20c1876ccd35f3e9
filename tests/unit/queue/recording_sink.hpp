// SPDX-License-Identifier: BSD-2-Clause
// An event sink that remembers its calls, from any thread.
#pragma once

#include <atomic>

#include "verbena/queue/events.hpp"

namespace verbena::queue::testing {

class RecordingSink final : public EventSink {
 public:
  void on_completion_event(void* cq_cookie) noexcept override {
    last_cookie = cq_cookie;
    ++completion_events;
  }
  void on_async_event(AsyncEvent event, void* cookie) noexcept override {
    last_event = event;
    last_cookie = cookie;
    ++async_events;
  }

  std::atomic<int> completion_events{0};
  std::atomic<int> async_events{0};
  std::atomic<AsyncEvent> last_event{};
  std::atomic<void*> last_cookie{nullptr};
};

}  // namespace verbena::queue::testing
