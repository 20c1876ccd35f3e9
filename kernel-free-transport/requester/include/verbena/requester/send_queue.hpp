// SPDX-License-Identifier: BSD-2-Clause
// The send queue: a ring of fixed-size entries that hold a request from posting to completion, with
// its scatter list or its inline bytes behind it. Fields that few requests need lie beside the
// ring. Owned by the requester, under the queue pair's lock. Positions only grow; `head` is the
// oldest entry that has not completed.
//
//            head              cursor (next to transmit)        tail
//    |  done   |  sent, waiting    |  posted, not sent             |
//
// To the program the queue is as full as with an adapter: a request keeps its slot until its
// completion, or that of a later request, was polled (freed_slots.hpp). So a completed request
// counts until then.
//
// When it is empty, it begins at the ring's first entry again: a long queue that is little used
// brings only the used part into the caches, and into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "verbena/base/types.hpp"
#include "verbena/queue/freed_slots.hpp"
#include "verbena/queue/work.hpp"

namespace verbena::requester {

// Fields that few requests need.
struct Rare {
  std::uint64_t compare = 0;      // COMPARE_SWAP; the transfer of a rendezvous: its tag
  std::uint64_t swap_or_add = 0;  // atomics; a rendezvous: what the application gets with the tag
  // BIND_MW
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint32_t window_key = 0;
  std::uint32_t new_key = 0;
  std::uint32_t region_key = 0;
  std::uint32_t access = 0;
  // FLUSH
  std::uint8_t flush_placement = 0;
  std::uint8_t flush_selectivity = 0;
};

struct SendEntry {
  std::uint64_t id = 0;
  std::uint64_t remote_address = 0;
  std::uint32_t remote_key = 0;  // UD: the Q_Key
  std::uint32_t immediate = 0;
  std::uint32_t length = 0;      // length of the message
  std::uint32_t packets = 0;     // PSNs that it takes; 0: a local operation
  Psn first;                     // given at the first transmission
  std::uint32_t message = 0;     // its number in the send sequence (SSN)
  std::uint32_t remote_qpn = 0;  // UD: the peer's QPN; XRC: the SRQ number
  queue::WorkOpcode opcode = queue::WorkOpcode::kSend;
  std::uint8_t flags = 0;
  std::uint8_t sge_count = 0;
  bool numbered : 1 = false;   // its PSNs are given
  bool done : 1 = false;       // a local operation that was carried out
  bool internal : 1 = false;   // made by the device: the transfer of a rendezvous
  bool inspected : 1 = false;  // Packing::is_inspected when its PSNs were given

  bool is_local() const {
    return opcode == queue::WorkOpcode::kLocalInvalidate ||
           opcode == queue::WorkOpcode::kBindWindow;
  }
  bool is_atomic() const {
    return opcode == queue::WorkOpcode::kCompareSwap || opcode == queue::WorkOpcode::kFetchAdd;
  }
  // Returns whether data answers the request, and not a mere acknowledgement.
  bool wants_response() const {
    return opcode == queue::WorkOpcode::kRead || is_atomic() ||
           opcode == queue::WorkOpcode::kFlush || opcode == queue::WorkOpcode::kAtomicWrite;
  }
  bool needs_receive() const {
    return opcode == queue::WorkOpcode::kSend || opcode == queue::WorkOpcode::kSendImmediate ||
           opcode == queue::WorkOpcode::kSendInvalidate ||
           opcode == queue::WorkOpcode::kWriteImmediate;
  }
  Psn last() const { return first + (packets - 1); }
};
// An entry with one buffer is one cache line: with a thousand queue pairs, no near cache holds the
// entries of each.
static_assert(sizeof(SendEntry) + sizeof(queue::Sge) == 64);

class SendQueue {
 public:
  struct Options {
    std::uint32_t capacity = 1;
    std::uint32_t max_sges = 1;
    std::uint32_t max_inline = 0;
    bool datagram = false;       // entries carry an address vector
    std::uint32_t reserved = 0;  // entries for the device's own requests, beside the capacity
  };
  explicit SendQueue(const Options& options);

  std::uint32_t capacity() const { return capacity_; }
  std::uint32_t max_sges() const { return max_sges_; }
  std::uint32_t max_inline() const { return max_inline_; }
  // Returns whether `requests` requests of the program find room.
  bool has_room_for(std::size_t requests) const {
    return held() + requests <= capacity_ || look_for_freed(requests);
  }
  bool has_room_for_own(std::uint32_t entries) const { return internal_ + entries <= reserved_; }
  bool is_empty() const { return tail_ == head_; }
  std::uint32_t head() const { return head_; }
  std::uint32_t tail() const { return tail_; }

  SendEntry& at(std::uint32_t position) const {
    return *reinterpret_cast<SendEntry*>(raw(position));
  }
  // Returns whether there is memory for entries; `rare`: for those that need a Rare, too. It is
  // allocated at the first request that needs it.
  bool has_memory(bool rare) noexcept {
    return (storage_ != nullptr && (!rare || rare_ != nullptr)) || allocate(rare);
  }
  // Reserves the next entry, clean. The queue must have memory and must not be full.
  SendEntry& push(bool internal = false);
  // Takes back the entry that was reserved last for the program, which is not posted after all.
  void take_back() { --tail_; }
  // Removes the oldest entry, which is `head`.
  void pop(const SendEntry& head) {
    if (head.internal) [[unlikely]] {
      --internal_;
    } else {
      ++done_;
    }
    ++head_;
  }
  // Sets the counter of the slots that are free again.
  void count_freed_by(const queue::FreedSlots* freed) {
    freed_ = freed;
    freed_before_ = freed != nullptr ? freed->total() : 0;
  }
  void clear() {
    head_ = tail_ = internal_ = done_ = freed_seen_ = 0;
    count_freed_by(freed_);
  }

  queue::Sge* sges(std::uint32_t position) const {
    return reinterpret_cast<queue::Sge*>(raw(position) + body_offset_);
  }
  std::uint8_t* inline_bytes(std::uint32_t position) const {
    return reinterpret_cast<std::uint8_t*>(raw(position) + body_offset_);
  }
  queue::AddressVector& address(std::uint32_t position) const {
    return *reinterpret_cast<queue::AddressVector*>(raw(position) + sizeof(SendEntry));
  }
  const Rare& rare(std::uint32_t position) const { return rare_[position & mask_]; }
  // Makes the entry's Rare, cleared, for the caller to fill.
  Rare& make_rare(std::uint32_t position) { return rare_[position & mask_] = {}; }

 private:
  // Slots that were not free when they were last looked at.
  std::uint32_t held() const { return done_ - freed_seen_ + (tail_ - head_ - internal_); }
  bool look_for_freed(std::size_t requests) const {
    if (freed_ == nullptr) return false;
    freed_seen_ = freed_->total() - freed_before_;
    return held() + requests <= capacity_;
  }
  bool allocate(bool rare) noexcept;
  std::byte* raw(std::uint32_t position) const {
    return reinterpret_cast<std::byte*>(storage_.get()) +
           std::size_t{(position - base_) & mask_} * stride_;
  }

  std::uint32_t capacity_;
  std::uint32_t max_sges_;
  std::uint32_t max_inline_;
  std::uint32_t reserved_;
  std::uint32_t internal_ = 0;  // entries of the device's own requests, now
  std::uint32_t mask_;          // the ring's size, a power of two, minus one
  std::size_t body_offset_;
  std::size_t stride_;
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::unique_ptr<Line[]> storage_;
  std::unique_ptr<Rare[]> rare_;
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
  std::uint32_t base_ = 0;  // the position of the ring's first entry
  // The program's requests that have completed, and those among them whose slots were freed.
  std::uint32_t done_ = 0;
  mutable std::uint32_t freed_seen_ = 0;
  std::uint32_t freed_before_ = 0;  // the counter's value when this queue began to use it
  const queue::FreedSlots* freed_ = nullptr;
};

}  // namespace verbena::requester
