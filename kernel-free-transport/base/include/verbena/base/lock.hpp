// SPDX-License-Identifier: BSD-2-Clause
// Every lock and every memory order of the engine.
//
// `Lock` is a word that says free or held, and a count of sleepers. unlock() is a plain store,
// because an atomic exchange would wait until all earlier stores have left the processor, including
// packets for another processor. unlock() therefore still reads the lock after it is free: before a
// lock is destroyed, every unlock() must have returned. The engine makes no system call, so
// `set_lock_waiter` provides how a thread sleeps on a held lock. Until then threads spin, which is
// right for a simulation with one thread. The other types are the few lock-free ways to share data;
// each defines its memory order once, here.
#pragma once

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace verbena {

// Call it between two reads of what another processor will write. Without it the processor starts
// many reads ahead, and all of them see the old value.
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

// How a thread waits while *word == expected, and how one waiter is woken. unlock() reads the count
// of sleepers after its store without a barrier between the two. `wait` must therefore issue a
// barrier on all other threads before it reads the word, or return by itself after a while.
struct LockWaiter {
  void (*wait)(std::atomic<std::uint32_t>* word, std::uint32_t expected) noexcept;
  void (*wake_one)(std::atomic<std::uint32_t>* word) noexcept;
};

// Sets the waiter of the whole process. Call it before threads share an engine.
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
  // Tries to lock for `looks` more times. For a caller that may have interrupted the thread that
  // holds the lock.
  bool lock_within(std::uint32_t looks) noexcept {
    while (!try_lock()) {
      if (looks-- == 0) return false;
      cpu_relax();
    }
    return true;
  }
  void unlock() noexcept {
    word_.store(kFree, std::memory_order_release);
    // The compiler keeps the order; the processor need not (see LockWaiter).
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

class [[nodiscard]] Guard {
 public:
  explicit Guard(Lock& lock) noexcept : lock_(lock) { lock_.lock(); }
  ~Guard() { lock_.unlock(); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Lock& lock_;
};

// A counter that many threads increase and any thread reads, unordered with other memory.
class Counter {
 public:
  void add(std::uint64_t n = 1) noexcept { value_.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t read() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// A counter with one writer at a time, under that writer's lock. It adds without an atomic
// operation, and any thread may read it.
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

// A flag or small value that one thread publishes and others read. A read() that returns the value
// also sees what was written before publish().
template <typename T>
class Published {
 public:
  Published() = default;
  explicit Published(T value) : value_(value) {}
  void publish(T value) noexcept { value_.store(value, std::memory_order_release); }
  T read() const noexcept { return value_.load(std::memory_order_acquire); }
  // Returns the value and replaces it with `next`.
  T take(T next) noexcept { return value_.exchange(next, std::memory_order_acq_rel); }
  // Reads the value without ordering other memory.
  T read_relaxed() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<T> value_{};
};

// Counts the users of something that may be withdrawn. enter() fails after a close, and a close
// waits until the last user has left. State and count are one word, so each side sees the other. A
// gate starts closed.
class Gate {
 public:
  bool enter() noexcept {
    if ((word_.fetch_add(1, std::memory_order_acquire) & kClosed) == 0) return true;
    word_.fetch_sub(1, std::memory_order_release);
    return false;
  }
  void leave() noexcept { word_.fetch_sub(1, std::memory_order_release); }
  // Closes the gate and spins until the last user has left. Users must be quick, and must not wait
  // for the thread that closes.
  void close_and_wait() noexcept {
    word_.fetch_or(kClosed, std::memory_order_acquire);
    while (word_.load(std::memory_order_acquire) != kClosed) cpu_relax();
  }
  // Closes the gate and spins for at most `looks` reads.
  void close_and_wait_for(std::uint32_t looks) noexcept {
    word_.fetch_or(kClosed, std::memory_order_acquire);
    while (word_.load(std::memory_order_acquire) != kClosed && looks-- != 0) cpu_relax();
  }
  void reopen() noexcept { word_.fetch_and(~kClosed, std::memory_order_release); }

 private:
  static constexpr std::uint32_t kClosed = 0x80000000u;
  std::atomic<std::uint32_t> word_{kClosed};
};

// A list that many threads push to and one thread takes as a whole. `T` has a member `T*
// next_in_list` and a `Published<bool> is_listed`, so that an item is in the list at most once.
template <typename T>
class TakeAllList {
 public:
  void push(T& item) noexcept {
    if (!item.is_listed.take(true)) link(item);
  }
  // Pushes an item more cheaply. The caller must hold a lock that the taking thread acquires
  // between unlist() and its work on the item: if the item is already listed, that work is still to
  // come.
  void push_exclusively(T& item) noexcept {
    if (!item.is_listed.read()) push(item);
  }
  bool is_empty() const noexcept { return head_.load(std::memory_order_relaxed) == nullptr; }
  // Takes all items, newest first. Each stays marked as listed until unlist().
  T* take_all() noexcept { return head_.exchange(nullptr, std::memory_order_acquire); }
  // Lets an item be pushed again. Call it after reading next_in_list and before working on the
  // item.
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
