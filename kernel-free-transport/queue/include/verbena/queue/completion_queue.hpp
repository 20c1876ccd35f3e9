// SPDX-License-Identifier: BSD-2-Clause
// A completion queue: a ring of completions under one lock, filled by queue pairs, emptied by the
// application. The ring is allocated in steps as it fills, so that a CQ of millions of entries
// costs what it holds. Arming, solicited events and overflow are decided here.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "verbena/base/lock.hpp"
#include "verbena/queue/event_arming.hpp"
#include "verbena/queue/events.hpp"
#include "verbena/queue/freed_slots.hpp"
#include "verbena/queue/work.hpp"

namespace verbena::queue {

class CompletionQueue {
 public:
  struct Options {
    std::uint32_t capacity = 1;
    void* cookie = nullptr;
    bool ignore_overrun = false;
    bool single_threaded =
        false;  // the owner promises; locks are taken all the same, they are cheap
    // Where completions get their time; null: they carry none.
    std::uint64_t (*clock)() noexcept = nullptr;
  };
  CompletionQueue(const Options& options, EventSink& events);
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // From a queue pair. False: the queue overflowed (it is then in error, its owner was told).
  bool push(const Completion& completion, bool solicited) noexcept {
    return push_made(solicited, [&](Completion& entry) { entry = completion; });
  }
  // The same, made where it stays by `make(Completion&)`, which gets a clean one and must not call
  // back.
  template <typename Make>
  bool push_made(bool solicited, Make&& make) noexcept {
    const Guard guard(lock_);
    if (count_ >= room_ && !make_room()) [[unlikely]]
      return false;
    Completion& entry = ring_[slot(head_ + count_)];
    entry.clear();
    make(entry);
    if (clock_ != nullptr) [[unlikely]]
      entry.timestamp = clock_();
    count_hint_.publish(++count_);
    const bool matters = solicited || entry.status != Status::kSuccess;
    if (arming_.note_pushed(head_ + count_, matters)) events_.on_completion_event(cookie_);
    return true;
  }

  // Takes up to out.size() completions, in order.
  std::size_t poll(std::span<Completion> out) noexcept;
  // The same, giving each to `use(const Completion&)`, which must not call back.
  template <typename Use>
  std::size_t poll(std::size_t most, Use&& use) noexcept {
    if (is_empty()) return 0;
    const Guard guard(lock_);
    if (peeked_ != 0 && !leave_to_reader()) [[unlikely]]
      return 0;
    const auto taken = static_cast<std::uint32_t>(std::min<std::size_t>(most, count_ - peeked_));
    const Completion* const ring = ring_.data();
    const std::uint32_t mask = mask_;
    const std::uint32_t first = head_ + peeked_;
    for (std::uint32_t i = first; i != first + taken; ++i) {
      const Completion& entry = ring[i & mask];
      use(entry);
      accounts_.at(entry.account).add_polled(entry.slots);
    }
    if (peeked_ != 0) [[unlikely]]
      move_peeked_up(taken);
    head_ += taken;
    count_ -= taken;
    count_hint_.publish(count_);
    return taken;
  }
  bool poll_one(Completion& out) noexcept;
  // For a reader that looks at some before it says how many it took: the next ones, at most `most`,
  // which stay where they are until `consume`, whatever else happens to the queue. One reader at a
  // time; `poll` meanwhile takes those behind. Each counts as polled once `note_read` was called.
  std::span<const Completion> peek(std::size_t most) noexcept;
  void note_read(const Completion& seen) noexcept {
    accounts_.at(account_of(seen).load(std::memory_order_relaxed)).add_read(seen.slots);
  }
  // Takes the first `count`; the last of them stays in `kept`.
  void consume(std::size_t count, Completion& kept) noexcept;
  bool is_empty() const noexcept { return count_hint_.read_relaxed() == 0; }

  // Asks for one event: at the next completion (or solicited one), or at once if one lies here of
  // which no event has told, as adapters do. An event that comes at once tells of one completion,
  // so that who polls one for each event gets them all; and what an event has told is told again
  // only to who arms twice without polling.
  Arming arm(bool solicited_only) noexcept;
  // Asks for none any more. Whether the queue was armed.
  bool disarm() noexcept;

  // Events only after `count` completions (0 or 1: each).
  void moderate(std::uint16_t count) noexcept;

  // False: more completions wait than the new capacity holds.
  bool resize(std::uint32_t capacity);
  // Forgets what a destroyed queue pair left behind, but for what the reader has seen. What is
  // forgotten counts as polled.
  void purge(std::uint32_t qpn) noexcept;

  // A work queue completes here from now on: under which number its completions count. Throws
  // std::bad_alloc.
  std::uint32_t open_account();
  // Lives as long as this queue; once the account is closed it may be another's.
  const FreedSlots& freed(std::uint32_t account) noexcept { return accounts_.at(account); }
  // What lies here frees no slots of this account any more.
  void disown(std::uint32_t account) noexcept;
  void close_account(std::uint32_t account) noexcept;

  // What it holds and what it waits for, at one moment.
  struct Snapshot {
    std::uint32_t capacity = 0;
    std::uint32_t unpolled = 0;
    ArmedFor armed = ArmedFor::kNothing;
    bool has_overrun = false;
  };
  Snapshot snapshot() const noexcept;

  std::uint32_t capacity() const noexcept { return capacity_; }
  void* cookie() const noexcept { return cookie_; }
  bool in_error() const noexcept { return failed_; }

 private:
  bool grow() noexcept { return move_to(ring_.size() * 2); }
  bool move_to(std::size_t size) noexcept;
  bool leave_to_reader() noexcept;
  bool drop_oldest() noexcept;
  bool make_room() noexcept;
  void set_room() noexcept {
    mask_ = static_cast<std::uint32_t>(ring_.size() - 1);
    room_ = failed_ ? 0 : std::min(capacity_, mask_ + 1);
  }
  void disown_locked(std::uint32_t account) noexcept;
  void move_peeked_up(std::uint32_t taken) noexcept;
  std::size_t slot(std::uint32_t position) const { return position & mask_; }
  // Of a completion that a reader looks at meanwhile.
  static std::atomic_ref<std::uint32_t> account_of(const Completion& c) noexcept {
    return std::atomic_ref<std::uint32_t>(const_cast<Completion&>(c).account);
  }

  EventSink& events_;
  void* cookie_;
  std::vector<Completion> ring_;  // a power of two of entries
  std::uint32_t mask_ = 0;        // one less
  std::uint32_t room_ = 0;        // as many entries as can be there without ado; 0: in error
  std::uint32_t capacity_;
  std::uint32_t head_ = 0;  // position of the oldest
  std::uint32_t count_ = 0;
  std::uint32_t peeked_ = 0;     // of them, at the head, by the reader
  std::uint32_t peek_lost_ = 0;  // that an overrun has taken from under the reader
  std::span<Completion> seen_;   // those and these, where they lie
  bool reads_ring_ = false;      // the reader looks into `ring_`, else into one of those:
  std::vector<std::vector<Completion>> left_;
  Published<std::uint32_t> count_hint_{0};
  EventArming arming_;
  SlotAccounts accounts_;
  bool ignore_overrun_;
  std::uint64_t (*clock_)() noexcept;
  bool failed_ = false;
  mutable Lock lock_;
};

}  // namespace verbena::queue
