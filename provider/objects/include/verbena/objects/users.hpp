// SPDX-License-Identifier: BSD-2-Clause
// Counts the objects that were built upon one, which is not destroyed while there are any. Any
// thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace verbena::provider {

class Users {
 public:
  void add() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  // Returns how many are left.
  std::uint32_t remove() noexcept { return count_.fetch_sub(1, std::memory_order_acq_rel) - 1; }
  std::uint32_t count() const noexcept { return count_.load(std::memory_order_acquire); }

 private:
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace verbena::provider
