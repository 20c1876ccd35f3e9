// SPDX-License-Identifier: BSD-2-Clause
// The asynchronous events of a context (ibv_get_async_event): the pipe, and which of its events the
// application has not acknowledged. Owned by the context; any thread.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "verbena/events/await_acks.hpp"
#include "verbena/events/event_pipe.hpp"

namespace verbena::provider {

class ProgramEvents {
 public:
  // Makes the pipe, whose reading end belongs to the context. Throws VerbRefused.
  explicit ProgramEvents(ibv_context& context);

  void send(std::uint64_t element, std::uint32_t type,
            std::atomic<std::uint32_t>* delivered) noexcept;
  // Called before an object goes, for `verb`, which waits. Takes back the object's unread events,
  // and waits until the application has acknowledged the others. In a forked child they are the
  // parent's. `number` is the object's.
  template <typename Object>
  void end_of(const char* verb, Object& object, std::uint32_t number,
              const std::uint32_t& acknowledged, std::atomic<std::uint32_t>& delivered) noexcept {
    if (delivered == 0 || pipe_.is_abandoned()) return;
    delivered -= static_cast<std::uint32_t>(
        pipe_.withdraw(reinterpret_cast<std::uintptr_t>(&object), sizeof(AsynchronousEvent)));
    if (pipe_.is_abandoned()) return;
    ack_waits_.await({{verb, "ibv_get_async_event", "ibv_ack_async_event"},
                      number,
                      &object.mutex,
                      &object.cond,
                      &acknowledged,
                      delivered});
  }
  // Who waits for acknowledgements: of these events, and of those of completion queues.
  AckWaits& ack_waits() noexcept { return ack_waits_; }
  // The application has read an event: there may be room for the next.
  void note_read() noexcept { pipe_.fill(); }
  // Raises the event of a work queue, for `verbena event` only.
  void raise_of_work_queue() noexcept;
  // Adopts the channel that libibverbs makes for an imported device after the context was made, and
  // moves there what was raised before. Each event does so first.
  void follow_library() noexcept;
  void abandon() noexcept { pipe_.abandon(); }
  void lose_descriptors() noexcept { pipe_.lose_descriptors(); }

 private:
  ibv_context& context_;
  EventPipe pipe_;
  AckWaits ack_waits_;
  std::mutex follow_lock_;
  bool has_followed_ = false;
  // Programs look into the work queue that an event names, and acknowledge the event by it. This
  // device makes no work queues (ibv_create_wq), so this one serves.
  ibv_wq no_wq_{};
};

}  // namespace verbena::provider
