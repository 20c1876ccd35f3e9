// SPDX-License-Identifier: BSD-2-Clause
// Answers with data that wait to be sent, in the order of their PSNs: answers to READs, to atomics,
// and to requests that are answered like atomics. The line has a fixed bound, and its memory from
// RTR on.
//
// Part of a responder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "verbena/base/types.hpp"
#include "verbena/memory/registry.hpp"
#include "verbena/wire/opcode.hpp"

namespace verbena::responder {

// The answer to a READ, in several packets, or to an atomic (or FLUSH, ATOMIC WRITE), in one.
struct Response {
  Psn first;
  std::uint32_t packets = 1;
  std::uint32_t sent = 0;  // packets already gone
  wire::Operation operation = wire::Operation::kReadRequest;
  std::uint32_t key = 0;
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint64_t original = 0;  // atomics: what was in memory before
  std::uint32_t message = 0;   // the MSN
  memory::DomainId domain = 0;
  bool repeated = false;  // the peer asked again: does not count against the limit
};

class ResponseLine {
 public:
  void reserve(std::size_t bound) { items_.reserve(bound); }
  bool empty() const { return waiting_ == 0; }
  std::size_t size() const { return waiting_; }
  std::size_t count_new() const;
  Response& front() { return *(items_.end() - static_cast<std::ptrdiff_t>(waiting_)); }
  // Adds a response, to be filled where it stays. Forgets what was sent, if it needs the room.
  Response& push() {
    if (empty()) items_.clear();
    if (items_.size() == items_.capacity()) compact();
    ++waiting_;
    return items_.emplace_back();
  }
  void pop() { --waiting_; }
  // The peer asks again from `psn` on: forgets the answers to that and to what came later. Returns
  // true if the answer to `psn` is still on its way out and need not be queued again.
  bool truncate(Psn psn);
  // What waits is not sent any more.
  void clear() { waiting_ = 0; }
  // Returns the response whose packet with this PSN was sent. Finds all that were sent since the
  // last push(); returns null for others.
  const Response* find_sent(Psn psn) const;

 private:
  void compact();

  std::vector<Response> items_;  // those that were sent, and behind them those that wait
  std::size_t waiting_ = 0;
};

}  // namespace verbena::responder
