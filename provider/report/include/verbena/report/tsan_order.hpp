// SPDX-License-Identifier: BSD-2-Clause
// Tells a program that is built with ThreadSanitizer that what it did before it posted a request
// comes before what it does after it took a completion, in any thread. TSan does not see our locks
// and atomics, and would call the reuse of a buffer a race.
//
// TSan's own functions exist only in such a program; otherwise each call is one comparison.
#pragma once

// NOLINTBEGIN(bugprone-reserved-identifier): TSan has chosen these names
extern "C" {
void __tsan_acquire(void* address) __attribute__((weak));
void __tsan_release(void* address) __attribute__((weak));
}
// NOLINTEND(bugprone-reserved-identifier)

namespace verbena::provider {

// One word for all queues: it orders more than necessary, and never too little.
inline constinit char order_of_work = 0;

inline void note_posting() noexcept {
  if (__tsan_release != nullptr) __tsan_release(&order_of_work);
}

inline void note_completion() noexcept {
  if (__tsan_acquire != nullptr) __tsan_acquire(&order_of_work);
}

}  // namespace verbena::provider
