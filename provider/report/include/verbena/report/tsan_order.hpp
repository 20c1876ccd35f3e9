// SPDX-License-Identifier: BSD-2-Clause
// What a program that is built with ThreadSanitizer must hear from us: that what it did before it
// posted work comes before what it does after it took a completion, by whatever thread. Its tool
// sees nothing of our locks and atomics, and would call the reuse of a buffer a race.
//
// The tool's own functions are there only in such a program; anywhere else this is one comparison.
#pragma once

// NOLINTBEGIN(bugprone-reserved-identifier): the tool has named them
extern "C" {
void __tsan_acquire(void* address) __attribute__((weak));
void __tsan_release(void* address) __attribute__((weak));
}
// NOLINTEND(bugprone-reserved-identifier)

namespace verbena::provider {

// One for all queues: it orders more than need be, and never too little.
inline constinit char order_of_work = 0;

inline void note_posting() noexcept {
  if (__tsan_release != nullptr) __tsan_release(&order_of_work);
}

inline void note_completion() noexcept {
  if (__tsan_acquire != nullptr) __tsan_acquire(&order_of_work);
}

}  // namespace verbena::provider
