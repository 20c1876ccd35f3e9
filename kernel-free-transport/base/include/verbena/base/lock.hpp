// SPDX-License-Identifier: BSD-2-Clause
// Every lock and every memory order of the engine.
//
// `Lock` is a word that is free or held, and a count of sleepers: to free it is a plain store,
// because an atomic exchange would wait until every store before it has left the processor, packets
// for another one among them. (So a lock is looked at after it is free: who destroys one must know
// that those who had it have returned, not merely have it.) The engine itself makes no system call,
// so how a thread sleeps on a taken lock is given from outside by `set_lock_waiter`; until then it
// spins, which is right for a simulation of one thread. The other types are the few shapes of
// sharing without a lock, each with its order written once, here.
#pragma once

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace verbena {

// Between two looks at what another processor will write: without it the processor begins many
// looks ahead, and all of them see the old value.
inline void look_anew() noexcept {
#if defined(__x86_64__)
  _mm_lfence();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// How a thread waits while *word == expected, and how one waiter is woken. Who frees a lock looks
// for sleepers after its store without a barrier between the two, so `wait` must put one into all
// other threads before it looks at the word, or come back by itself after a while.
struct LockWaiter {
  void (*wait)(std::atomic<std::uint32_t>* word, std::uint32_t expected) noexcept;
  void (*wake_one)(std::atomic<std::uint32_t>* word) noexcept;
};

// Process-wide; call before threads share an engine.
void set_lock_waiter(LockWaiter waiter) noexcept;

class Lock {
 public:
  Lock() = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  bool try_lock() noexcept {
    std::uint32_t free = kFree;
    return word_.compare_exchange_strong(free, kHeld, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }
  void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      lock_slow();
  }
  // The same, but gives up after so many looks: for who may have interrupted the one that has it.
  bool lock_within(std::uint32_t looks) noexcept {
    while (!try_lock()) {
      if (looks-- == 0) return false;
      cpu_relax();
    }
    return true;
  }
  void unlock() noexcept {
    word_.store(kFree, std::memory_order_release);
    // The compiler keeps the order; the processor need not, see LockWaiter.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      unlock_slow();
    }
  }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kHeld = 1;

  [[gnu::noinline]] void lock_slow() noexcept;
  [[gnu::noinline]] void unlock_slow() noexcept;

  std::atomic<std::uint32_t> word_{kFree};
  std::atomic<std::uint32_t> sleepers_{0};
};

template <typename L>
class [[nodiscard]] BasicGuard {
 public:
  explicit BasicGuard(L& lock) noexcept : lock_(&lock) { lock_->lock(); }
  ~BasicGuard() { lock_->unlock(); }
  BasicGuard(const BasicGuard&) = delete;
  BasicGuard& operator=(const BasicGuard&) = delete;

 private:
  L* lock_;
};
using Guard = BasicGuard<Lock>;

// A counter that many threads raise and anyone reads: no order with anything else.
class Counter {
 public:
  void add(std::uint64_t n = 1) noexcept { value_.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t read() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// A counter with one writer at a time (under that writer's lock): a plain add, readable anywhere.
class OwnedCounter {
 public:
  void add(std::uint64_t n = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void set(std::uint64_t n) noexcept { value_.store(n, std::memory_order_relaxed); }
  std::uint64_t read() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// A flag or small value that one thread publishes and others read: what was written before
// `publish` is seen after a `read` that returns it.
template <typename T>
class Published {
 public:
  Published() = default;
  explicit Published(T value) : value_(value) {}
  void publish(T value) noexcept { value_.store(value, std::memory_order_release); }
  T read() const noexcept { return value_.load(std::memory_order_acquire); }
  // Takes what is there and leaves `next`.
  T take(T next) noexcept { return value_.exchange(next, std::memory_order_acq_rel); }
  // For a value that carries nothing but itself.
  T read_relaxed() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<T> value_{};
};

// Counts the users of something that may be withdrawn: `enter` fails once `close` was called, and
// `close` returns true when nobody is inside any more. One word, so that both see each other.
class Gate {
 public:
  bool enter() noexcept {
    if ((word_.fetch_add(1, std::memory_order_acquire) & kClosed) == 0) return true;
    word_.fetch_sub(1, std::memory_order_release);
    return false;
  }
  void leave() noexcept { word_.fetch_sub(1, std::memory_order_release); }
  // Shuts the gate and waits, spinning, until the last user has left: users are soon done, and wait
  // for nobody who is here.
  void close_and_wait() noexcept {
    word_.fetch_or(kClosed, std::memory_order_acquire);
    while (word_.load(std::memory_order_acquire) != kClosed) cpu_relax();
  }
  // The same, but waits for so many looks only.
  void close_and_wait_for(std::uint32_t looks) noexcept {
    word_.fetch_or(kClosed, std::memory_order_acquire);
    while (word_.load(std::memory_order_acquire) != kClosed && looks-- != 0) cpu_relax();
  }
  void reopen() noexcept { word_.fetch_and(~kClosed, std::memory_order_release); }

 private:
  static constexpr std::uint32_t kClosed = 0x80000000u;
  std::atomic<std::uint32_t> word_{kClosed};
};

// A list that many threads push to and one takes as a whole: `T` has a member `T* next_in_list` and
// a `Published<bool> is_listed`, so that it stands in the list at most once.
template <typename T>
class TakeAllList {
 public:
  void push(T& item) noexcept {
    if (!item.is_listed.take(true)) link(item);
  }
  // The same, and cheaper, for who holds a lock that everyone takes between `unlist` and the work:
  // an item that is listed will be worked on after this.
  void push_exclusively(T& item) noexcept {
    if (!item.is_listed.read()) push(item);
  }
  bool is_empty() const noexcept { return head_.load(std::memory_order_relaxed) == nullptr; }
  // The items, newest first. Each stays marked as listed until `unlist`.
  T* take_all() noexcept { return head_.exchange(nullptr, std::memory_order_acquire); }
  // After reading next_in_list, before working on it: from here on it may be pushed again.
  static void unlist(T& item) noexcept { item.is_listed.publish(false); }

 private:
  void link(T& item) noexcept {
    T* head = head_.load(std::memory_order_relaxed);
    do {
      item.next_in_list = head;
    } while (!head_.compare_exchange_weak(head, &item, std::memory_order_release,
                                          std::memory_order_relaxed));
  }

  std::atomic<T*> head_{nullptr};
};

}  // namespace verbena
