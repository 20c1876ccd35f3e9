// SPDX-License-Identifier: BSD-2-Clause
// Before an object is destroyed, its events must be acknowledged. Otherwise an application that has
// read one would hold a dangling handle (the man page of ibv_ack_async_event).
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <vector>

#include "verbena/report/explain.hpp"

namespace verbena::provider {

// The verb that waits, and the verbs that return events and acknowledge them.
struct AckVerbs {
  const char* waits;
  const char* gives;
  const char* acknowledges;
};

// An object that a verb is about to destroy. libibverbs counts its acknowledged events under the
// mutex, and wakes those who wait at the condition variable.
struct AwaitedAcks {
  AckVerbs verbs;
  std::uint32_t number;
  pthread_mutex_t* mutex;
  pthread_cond_t* cond;
  const std::uint32_t* acknowledged;
  std::uint32_t delivered;
  AwaitedAcks* next = nullptr;  // in the list of AckWaits
};

// What a verb waits for at this moment.
struct MissingAcks {
  AckVerbs verbs;
  std::uint32_t number;
  std::uint32_t delivered;
  std::uint32_t missing;
};

// Lists the verbs of a context that wait for acknowledgements, for people who ask what a program
// that hangs waits for. Any thread.
class AckWaits {
 public:
  // Waits until the application has acknowledged the events that it got, and explains the wait
  // after a second. `delivered` does not grow any more, because nothing refers to the object.
  void await(AwaitedAcks acks) noexcept;
  // Returns what waits now, at most `most` of them.
  std::vector<MissingAcks> waiting(std::size_t most);

 private:
  std::mutex lock_;
  AwaitedAcks* first_ = nullptr;
};

}  // namespace verbena::provider
