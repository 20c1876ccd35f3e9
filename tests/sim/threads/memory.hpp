// SPDX-License-Identifier: BSD-2-Clause
// Shared words as processors see them. A store stays in its thread's store buffer for a while
// before other threads see it. Two stores to different words may be seen in either order, unless
// the second one releases. The thread itself sees its own stores at once. A fence, a change of
// threads and a system call empty the buffer. A read-modify-write writes out the buffered stores to
// its word, or all of them if it releases. Loads are never early: of all that C++ allows, this
// plays only late stores.
//
// prelude.hpp replaces std::atomic by Atomic, so the product's code runs on it unchanged.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

namespace verbena::threads {

// Calls to the machine that runs (machine.hpp). Outside a virtual thread there is only the access.
void before_access() noexcept;  // one step of the thread; others may run before it is over
bool load_own_store(const void* word, std::uint64_t& value) noexcept;
bool buffer_store(void* word, std::uint64_t value, std::size_t size, bool releases) noexcept;
void settle_word(const void* word, bool all) noexcept;
void settle_word_of_all(const void* word) noexcept;
void fence(std::memory_order order) noexcept;

template <typename T>
class Atomic {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));

 public:
  Atomic() noexcept = default;
  Atomic(T value) noexcept : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order = std::memory_order_seq_cst) const noexcept {
    before_access();
    std::uint64_t own = 0;
    if (!load_own_store(&value_, own)) return value_;
    T value;
    std::memcpy(&value, &own, sizeof value);
    return value;
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
    before_access();
    std::uint64_t raw = 0;
    std::memcpy(&raw, &value, sizeof value);
    const bool releases = order != std::memory_order_relaxed;
    if (!buffer_store(&value_, raw, sizeof value, releases)) value_ = value;
    if (order == std::memory_order_seq_cst) fence(order);
  }
  // Stores under a lock that the model does not have: costs no step, and is seen at once, after all
  // stores before it.
  void set_at_once(T value) noexcept {
    settle_word_of_all(&value_);
    value_ = value;
  }
  // Stores under such a lock, but other threads see it as late as any store.
  void set_late(T value) noexcept {
    std::uint64_t raw = 0;
    std::memcpy(&raw, &value, sizeof value);
    if (!buffer_store(&value_, raw, sizeof value, false)) value_ = value;
  }
  T exchange(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return change(order, [&](T) { return value; });
  }
  T fetch_add(T by, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return change(order, [&](T old) { return static_cast<T>(old + by); });
  }
  T fetch_sub(T by, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return change(order, [&](T old) { return static_cast<T>(old - by); });
  }
  T fetch_or(T bits, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return change(order, [&](T old) { return static_cast<T>(old | bits); });
  }
  T fetch_and(T bits, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return change(order, [&](T old) { return static_cast<T>(old & bits); });
  }
  bool compare_exchange_strong(T& expected, T desired,
                               std::memory_order order = std::memory_order_seq_cst,
                               std::memory_order = std::memory_order_seq_cst) noexcept {
    bool is_equal = false;
    const T old = change(order, [&](T seen) {
      is_equal = seen == expected;
      return is_equal ? desired : seen;
    });
    expected = old;
    return is_equal;
  }
  bool compare_exchange_weak(T& expected, T desired,
                             std::memory_order order = std::memory_order_seq_cst,
                             std::memory_order failed = std::memory_order_seq_cst) noexcept {
    return compare_exchange_strong(expected, desired, order, failed);
  }

 private:
  template <typename Next>
  T change(std::memory_order order, Next&& next) noexcept {
    before_access();
    settle_word(&value_, order == std::memory_order_release || order == std::memory_order_acq_rel ||
                             order == std::memory_order_seq_cst);
    const T old = value_;
    value_ = next(old);
    return old;
  }

  T value_{};
};

}  // namespace verbena::threads
