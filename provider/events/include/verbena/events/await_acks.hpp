// SPDX-License-Identifier: BSD-2-Clause
// Before an object is destroyed, its events must be acknowledged. Otherwise an application that has
// read one would hold a dangling handle (the man page of ibv_ack_async_event).
#pragma once

#include <pthread.h>

#include <cstdint>
#include <ctime>

#include "verbena/report/explain.hpp"

namespace verbena::provider {

// The verb that waits, and the verbs that return events and acknowledge them.
struct AckVerbs {
  const char* waits;
  const char* gives;
  const char* acknowledges;
};

// Waits until the application has acknowledged the events that it got, and explains the wait after
// a second. `delivered` does not grow any more, because nothing refers to the object.
template <typename Object>
void await_acks(const AckVerbs& verbs, Object& object, const std::uint32_t& acknowledged,
                std::uint32_t delivered) {
  ::pthread_mutex_lock(&object.mutex);
  if (acknowledged != delivered) {
    timespec soon{};
    (void)::clock_gettime(CLOCK_REALTIME, &soon);
    ++soon.tv_sec;
    while (acknowledged != delivered &&
           ::pthread_cond_timedwait(&object.cond, &object.mutex, &soon) == 0) {
    }
    if (acknowledged != delivered) {
      explain("%s waits: %s has given %u events of this object, %s has acknowledged %u",
              verbs.waits, verbs.gives, delivered, verbs.acknowledges, acknowledged);
    }
  }
  while (acknowledged != delivered) ::pthread_cond_wait(&object.cond, &object.mutex);
  ::pthread_mutex_unlock(&object.mutex);
}

}  // namespace verbena::provider
