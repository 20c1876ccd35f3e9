// SPDX-License-Identifier: BSD-2-Clause
// Before an object is destroyed its events must be acknowledged, or an application that has read
// one would hold a handle to nothing (the man page of ibv_ack_async_event).
#pragma once

#include <pthread.h>

#include <cstdint>

namespace verbena::provider {

// Waits until the application has acknowledged the events that it got. `delivered` does not grow
// any more: nothing refers to the object.
template <typename Object>
void await_acks(Object& object, const std::uint32_t& acknowledged, std::uint32_t delivered) {
  ::pthread_mutex_lock(&object.mutex);
  while (acknowledged != delivered) ::pthread_cond_wait(&object.cond, &object.mutex);
  ::pthread_mutex_unlock(&object.mutex);
}

}  // namespace verbena::provider
