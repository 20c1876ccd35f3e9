// SPDX-License-Identifier: BSD-2-Clause
// A completion queue: a ring of completions under one lock. Queue pairs fill it and the application
// empties it. The ring grows in steps as it fills, so that a CQ for millions of entries takes only
// the memory that it needs. It decides about arming, solicited events and overflow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
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
    // Gives completions their time; null: they have none.
    std::uint64_t (*clock)() noexcept = nullptr;
  };
  CompletionQueue(const Options& options, EventSink& events);
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // Adds a completion of a queue pair. Returns false if the queue overflowed (it is then in error,
  // and its owner was told).
  bool push(const Completion& completion, bool solicited) noexcept {
    return push_made(solicited, [&](Completion& entry) { entry = completion; });
  }
  // Adds a completion that `make(Completion&)` fills in place. `make` gets a cleared one and must
  // not call back.
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
  // Takes up to `most` completions, in order, and passes each to `use(const Completion&)`, which
  // must not call back.
  template <typename Use>
  std::size_t poll(std::size_t most, Use&& use) noexcept {
    if (is_empty()) return 0;
    const Guard guard(lock_);
    if (peeked_ != 0 && !leave_to_reader()) [[unlikely]]
      return 0;
    const auto taken = static_cast<std::uint32_t>(std::min<std::size_t>(most, count_ - peeked_));
    const Completion* const ring = ring_.data();
    const std::uint32_t mask = mask_;
    const std::uint64_t first = head_ + peeked_;
    for (std::uint64_t i = first; i != first + taken; ++i) {
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
  // Shows a reader the next completions, at most `most`, before it decides how many to take. They
  // stay in place until `consume`, whatever else happens to the queue. One reader at a time;
  // meanwhile `poll` takes the completions behind them. Each counts as polled once `note_read` was
  // called for it.
  std::span<const Completion> peek(std::size_t most) noexcept;
  void note_read(const Completion& seen) noexcept {
    const Guard guard(lock_);
    count_polled(seen);
  }
  // Takes the first `count` of the completions that peek() showed and copies the last of them to
  // `kept`.
  void consume(std::size_t count, Completion& kept) noexcept;
  bool is_empty() const noexcept { return count_hint_.read_relaxed() == 0; }

  // Asks for one event. As with adapters, it comes at the next completion (or solicited
  // completion), or at once if the queue holds a completion that no event has reported. An event at
  // once reports one completion, so a program that polls one completion per event gets all of them.
  // Only a program that arms twice without polling is told of a completion again.
  Arming arm(bool solicited_only) noexcept;
  // Withdraws the request for an event. Returns whether the queue was armed.
  bool disarm() noexcept;

  // Sends an event only after `count` completions (0 or 1: after each).
  void moderate(std::uint16_t count) noexcept;

  // Returns false if the queue holds more completions than the new capacity.
  bool resize(std::uint32_t capacity);
  // Removes the completions of a destroyed queue pair. Those that the reader has seen go when it is
  // done, if it leaves them. Removed completions count as polled.
  void purge(std::uint32_t qpn) noexcept;

  // Opens an account for a work queue that completes here, and returns the number that its
  // completions carry. Throws std::bad_alloc.
  std::uint32_t open_account();
  // Returns the count of an account. It lives as long as this queue; once the account is closed, it
  // may be reused for another work queue.
  const FreedSlots& freed(std::uint32_t account) noexcept { return accounts_.at(account); }
  // Counts what a reader has seen and not read yet as polled, because the account will be closed.
  void count_seen(std::uint32_t account) noexcept;
  // Makes the completions in the queue free no slots of this account any more.
  void disown(std::uint32_t account) noexcept;
  void close_account(std::uint32_t account) noexcept;

  // What the queue holds and what it is armed for, at one moment.
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
  // Drops all completions of the queue pair from the one at head_ + `from` on.
  void drop_all_of(std::uint32_t qpn, std::uint32_t from) noexcept;
  std::size_t slot(std::uint64_t position) const { return position & mask_; }
  // Counts a completion that the reader has seen, once.
  void count_polled(const Completion& seen) noexcept {
    accounts_.at(std::exchange(const_cast<Completion&>(seen).account, 0)).add_polled(seen.slots);
  }

  EventSink& events_;
  void* cookie_;
  std::vector<Completion> ring_;  // the size is a power of two
  std::uint32_t mask_ = 0;        // the ring's size minus one
  std::uint32_t room_ = 0;        // entries that fit without make_room(); 0: in error
  std::uint32_t capacity_;
  std::uint64_t head_ = 0;  // position of the oldest completion
  std::uint32_t count_ = 0;
  std::uint32_t peeked_ = 0;           // completions at the head that the reader has seen
  std::uint32_t peek_lost_ = 0;        // seen completions that an overrun has removed
  std::span<Completion> seen_;         // all seen completions, in place
  std::vector<std::uint32_t> purged_;  // queue pairs whose completions go when the reader is done
  bool reads_ring_ = false;            // `seen_` is in `ring_`, else in one of `left_`
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
