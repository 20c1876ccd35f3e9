// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/queue/receive_queue.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "verbena/base/short_copy.hpp"

namespace verbena::queue {
namespace {

// Copies a list of buffers. Most lists have one entry.
void copy_sges(void* to, const void* from, std::uint32_t count) noexcept {
  if (count == 1) [[likely]] {
    std::memcpy(to, from, sizeof(Sge));
  } else {
    short_copy(to, from, count * sizeof(Sge));
  }
}

}  // namespace

ReceiveQueue::ReceiveQueue(const Options& options, EventSink& events)
    : events_(events),
      cookie_(options.cookie),
      capacity_(options.capacity),
      max_sges_(std::clamp<std::uint32_t>(options.max_sges, 1, kMaxSges)),
      stride_(sizeof(EntryHead) + max_sges_ * sizeof(Sge)),
      shared_(options.shared) {}

// Does not initialise the memory, so that pages of unused receives are never touched.
bool ReceiveQueue::allocate() noexcept {
  storage_.reset(new (std::nothrow) std::byte[capacity_ * stride_]);
  return storage_ != nullptr;
}

ReceiveQueue::Posted ReceiveQueue::post(const RecvRequest& request) noexcept {
  if (request.sges.size() > max_sges_) return Posted::kTooManySges;
  const Guard guard(lock_);
  if (held_ >= capacity_ && !look_for_freed()) return Posted::kFull;
  if (!storage_ && !allocate()) return Posted::kNoMemory;
  std::byte* at = entry(head_ + count_);
  const EntryHead head{request.id, static_cast<std::uint32_t>(request.sges.size()), 0};
  std::memcpy(at, &head, sizeof head);
  copy_sges(at + sizeof head, request.sges.data(), head.sge_count);
  ++held_;
  ++count_;
  count_hint_.publish(count_);
  return Posted::kOk;
}

// Frees the slots of completions that were polled since the last look.
void ReceiveQueue::settle(Attached& a) noexcept {
  const std::uint32_t total = a.cq->freed(a.account).total();
  held_ -= total - a.total;
  a.total = total;
}

bool ReceiveQueue::look_for_freed() noexcept {
  for (Attached& a : attached_) settle(a);
  return held_ < capacity_;
}

std::uint32_t ReceiveQueue::attach(CompletionQueue& cq) {
  const Guard guard(lock_);
  for (Attached& a : attached_) {
    if (a.cq != &cq) continue;
    ++a.users;
    return a.account;
  }
  attached_.reserve(attached_.size() + 1);
  const std::uint32_t account = cq.open_account();
  attached_.push_back({&cq, account, 1, cq.freed(account).total()});
  return account;
}

void ReceiveQueue::detach(CompletionQueue& cq) noexcept {
  const Guard guard(lock_);
  std::erase_if(attached_, [&](Attached& a) {
    if (a.cq != &cq || --a.users != 0) return false;
    cq.count_seen(a.account);
    settle(a);
    cq.close_account(a.account);
    return true;
  });
}

void ReceiveQueue::give_back() noexcept {
  const Guard guard(lock_);
  --held_;
}

bool ReceiveQueue::take(ActiveReceive& out) noexcept {
  const Guard guard(lock_);
  if (count_ == 0) [[unlikely]]
    return false;
  const std::byte* at = entry(head_);
  EntryHead head;
  std::memcpy(&head, at, sizeof head);
  out.id = head.id;
  out.sge_count = head.sge_count;
  copy_sges(out.sges.data(), at + sizeof head, head.sge_count);
  out.capacity = 0;
  for (std::uint32_t i = 0; i < out.sge_count; ++i) out.capacity += out.sges[i].length;
  if (++head_ == capacity_) head_ = 0;
  --count_;
  count_hint_.publish(count_);
  if (limit_ != 0 && count_ < limit_) {
    limit_ = 0;
    events_.on_async_event(AsyncEvent::kSrqLimitReached, cookie_);
  }
  return true;
}

void ReceiveQueue::clear() noexcept {
  const Guard guard(lock_);
  for (Attached& a : attached_) {
    a.cq->disown(a.account);
    settle(a);
  }
  head_ = count_ = held_ = 0;
  count_hint_.publish(0);
}

bool ReceiveQueue::set_limit(std::uint32_t limit) noexcept {
  const Guard guard(lock_);
  if (limit > capacity_) return false;
  limit_ = limit;
  return true;
}

bool ReceiveQueue::resize(std::uint32_t capacity) {
  const Guard guard(lock_);
  if (capacity < count_ || capacity == 0) return false;
  if (storage_) {
    std::unique_ptr<std::byte[]> larger(new std::byte[capacity * stride_]);
    for (std::uint32_t i = 0; i < count_; ++i) {
      std::memcpy(larger.get() + i * stride_, entry(head_ + i), stride_);
    }
    storage_ = std::move(larger);
  }
  capacity_ = capacity;
  head_ = 0;
  return true;
}

}  // namespace verbena::queue
