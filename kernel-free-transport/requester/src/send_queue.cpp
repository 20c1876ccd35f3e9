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
  const std::size_t body =
      std::max({std::size_t{max_sges_} * sizeof(queue::Sge), std::size_t{max_inline_},
                options.datagram ? std::size_t{0} : sizeof(WindowBindArguments)});
  stride_ = round_up(body_offset_ + body, alignof(std::max_align_t));
}

SendEntry& SendQueue::push(bool internal) {
  if (!storage_) [[unlikely]] storage_.reset(new std::byte[(std::size_t{mask_} + 1) * stride_]);
  if (is_empty()) base_ = tail_;
  SendEntry& entry = *new (raw(tail_++)) SendEntry;
  if (internal) [[unlikely]] {
    entry.internal = true;
    ++internal_;
  }
  return entry;
}

}  // namespace verbena::requester
