// SPDX-License-Identifier: BSD-2-Clause
// The compiler reads this before every file of this program (-include). From here on std::atomic in
// the product's code is the simulation's. The standard headers that use std::atomic themselves are
// read before the change, and keep theirs.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <queue>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "memory.hpp"

namespace std {
template <typename T>
using simulated_atomic = ::verbena::threads::Atomic<T>;
inline void simulated_thread_fence(memory_order order) noexcept {
  ::verbena::threads::fence(order);
}
}  // namespace std

#define atomic simulated_atomic
#define atomic_thread_fence simulated_thread_fence
