// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/requester/send_queue.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace verbena::requester {
namespace {

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

}  // namespace

SendQueue::SendQueue(const Options& options)
    : capacity_(options.capacity),
      max_sges_(options.max_sges),
      max_inline_(options.max_inline),
      reserved_(options.reserved),
      mask_(std::bit_ceil(std::max(capacity_ + reserved_, 1u)) - 1),
      body_offset_(sizeof(SendEntry) + (options.datagram ? sizeof(queue::AddressVector) : 0)) {
  body_offset_ = round_up(body_offset_, alignof(queue::Sge));
  // A body is at least as long as one buffer, because the device's own requests have inline bytes
  // as well.
  const std::size_t body =
      std::max(std::size_t{std::max(max_sges_, 1u)} * sizeof(queue::Sge), std::size_t{max_inline_});
  stride_ = round_up(body_offset_ + body, alignof(std::max_align_t));
}

bool SendQueue::allocate(bool rare) noexcept {
  const std::size_t entries = std::size_t{mask_} + 1;
  if (!storage_) {
    storage_.reset(new (std::nothrow)
                       Line[round_up(entries * stride_, sizeof(Line)) / sizeof(Line)]);
  }
  if (rare && !rare_) rare_.reset(new (std::nothrow) Rare[entries]);
  return storage_ != nullptr && (!rare || rare_ != nullptr);
}

SendEntry& SendQueue::push(bool internal) {
  if (is_empty()) base_ = tail_;
  SendEntry& entry = *new (raw(tail_++)) SendEntry;
  if (internal) [[unlikely]] {
    entry.internal = true;
    ++internal_;
  }
  return entry;
}

}  // namespace verbena::requester
