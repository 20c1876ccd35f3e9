// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/queue/completion_queue.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace verbena::queue {
namespace {

constexpr std::uint32_t kFirstRing = 64;

}  // namespace

CompletionQueue::CompletionQueue(const Options& options, EventSink& events)
    : events_(events),
      cookie_(options.cookie),
      capacity_(options.capacity),
      ignore_overrun_(options.ignore_overrun),
      clock_(options.clock) {
  ring_.resize(std::bit_ceil(std::min(capacity_, kFirstRing)));
  set_room();
}

// Moves to another ring, with the waiting completions first. The size is a power of two, so
// positions wrap with the 32-bit counters. Completions that the reader has seen stay in place.
// Returns false if there is no memory.
bool CompletionQueue::move_to(std::size_t size) noexcept try {
  std::vector<Completion> other(size);
  for (std::uint32_t i = 0; i < count_; ++i) other[i] = ring_[slot(head_ + i)];
  if (reads_ring_) {
    left_.reserve(left_.size() + 1);
    left_.push_back(std::move(ring_));
    reads_ring_ = false;
  }
  ring_ = std::move(other);
  set_room();
  arming_.restart_at(head_);
  head_ = 0;
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

// Moves to another ring if the reader looks at this one. Call it before changing what it sees.
bool CompletionQueue::leave_to_reader() noexcept { return !reads_ring_ || move_to(ring_.size()); }

CompletionQueue::Snapshot CompletionQueue::snapshot() const noexcept {
  const Guard guard(lock_);
  return {capacity_, count_, arming_.armed(), failed_};
}

bool CompletionQueue::drop_oldest() noexcept {
  if (peeked_ != 0 && !leave_to_reader()) return false;
  const Completion& oldest = ring_[slot(head_)];
  ++head_;
  --count_;
  if (peeked_ == 0) {
    accounts_.at(oldest.account).add_polled(oldest.slots);
    return true;
  }
  --peeked_;
  ++peek_lost_;
  return true;
}

// Makes room for one more completion. Returns false if there is none; the queue is then in error.
bool CompletionQueue::make_room() noexcept {
  if (failed_) return false;
  const bool has_room = count_ < capacity_ || (ignore_overrun_ && drop_oldest());
  if (has_room && (count_ != ring_.size() || grow())) return true;
  failed_ = true;
  set_room();
  events_.on_async_event(AsyncEvent::kCqError, cookie_);
  return false;
}

// Moves the seen completions up after `taken` completions behind them were taken.
void CompletionQueue::move_peeked_up(std::uint32_t taken) noexcept {
  for (std::uint32_t i = peeked_; i-- > 0;) ring_[slot(head_ + i + taken)] = ring_[slot(head_ + i)];
}

std::size_t CompletionQueue::poll(std::span<Completion> out) noexcept {
  return poll(out.size(), [to = out.begin()](const Completion& c) mutable { *to++ = c; });
}

bool CompletionQueue::poll_one(Completion& out) noexcept { return poll({&out, 1}) == 1; }

std::span<const Completion> CompletionQueue::peek(std::size_t most) noexcept {
  if (is_empty()) return {};
  const Guard guard(lock_);
  peek_lost_ = 0;
  const std::size_t to_end = ring_.size() - slot(head_);
  peeked_ = static_cast<std::uint32_t>(std::min({most, std::size_t{count_}, to_end}));
  reads_ring_ = peeked_ != 0;
  seen_ = {ring_.data() + slot(head_), peeked_};
  return seen_;
}

void CompletionQueue::consume(std::size_t count, Completion& kept) noexcept {
  const Guard guard(lock_);
  if (count != 0) kept = seen_[count - 1];
  seen_ = {};
  const auto seen = static_cast<std::uint32_t>(count);
  const std::uint32_t taken = seen > peek_lost_ ? std::min(seen - peek_lost_, peeked_) : 0;
  peeked_ = peek_lost_ = 0;
  reads_ring_ = false;
  left_.clear();
  head_ += taken;
  count_ -= taken;
  if (!purged_.empty()) [[unlikely]] {
    for (const std::uint32_t qpn : std::exchange(purged_, {})) drop_all_of(qpn, 0);
  }
  count_hint_.publish(count_);
}

Arming CompletionQueue::arm(bool solicited_only) noexcept {
  bool fires = false;
  Arming result{};
  {
    const Guard guard(lock_);
    result = arming_.arm(head_, head_ + count_, solicited_only, fires);
  }
  if (fires) events_.on_completion_event(cookie_);
  return result;
}

bool CompletionQueue::disarm() noexcept {
  const Guard guard(lock_);
  return arming_.disarm();
}

void CompletionQueue::moderate(std::uint16_t count) noexcept {
  const Guard guard(lock_);
  if (arming_.moderate(count, head_ + count_)) events_.on_completion_event(cookie_);
}

bool CompletionQueue::resize(std::uint32_t capacity) {
  const Guard guard(lock_);
  if (capacity < count_) return false;
  capacity_ = capacity;
  set_room();
  return true;
}

void CompletionQueue::purge(std::uint32_t qpn) noexcept {
  const Guard guard(lock_);
  drop_all_of(qpn, peeked_);
  count_hint_.publish(count_);
  if (peeked_ == 0) return;
  try {
    purged_.push_back(qpn);
  } catch (const std::bad_alloc&) {  // those that the reader has seen and leaves will stay
  }
}

void CompletionQueue::drop_all_of(std::uint32_t qpn, std::uint32_t from) noexcept {
  std::uint32_t kept = from;
  for (std::uint32_t i = from; i < count_; ++i) {
    const Completion& c = ring_[slot(head_ + i)];
    if (c.qpn != qpn) {
      ring_[slot(head_ + kept++)] = c;
    } else {
      accounts_.at(c.account).add_polled(c.slots);
    }
  }
  if (kept != count_) arming_.cut(head_, head_ + kept);
  count_ = kept;
}

std::uint32_t CompletionQueue::open_account() {
  const Guard guard(lock_);
  return accounts_.open();
}

void CompletionQueue::count_seen(std::uint32_t account) noexcept {
  const Guard guard(lock_);
  for (const Completion& c : seen_) {
    if (c.account == account) count_polled(c);
  }
}

void CompletionQueue::disown(std::uint32_t account) noexcept {
  const Guard guard(lock_);
  disown_locked(account);
}

void CompletionQueue::close_account(std::uint32_t account) noexcept {
  const Guard guard(lock_);
  disown_locked(account);
  accounts_.close(account);
}

void CompletionQueue::disown_locked(std::uint32_t account) noexcept {
  const auto disown_one = [account](Completion& c) {
    if (c.account == account) c.account = 0;
  };
  for (std::uint32_t i = 0; i < count_; ++i) disown_one(ring_[slot(head_ + i)]);
  for (Completion& c : seen_) disown_one(c);
}

}  // namespace verbena::queue
