// SPDX-License-Identifier: BSD-2-Clause
// The independent model that traffic is held against: what each operation must have done, kept as
// plain bytes and queues, knowing nothing of packets. It throws `Failure` at the first difference.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "verbena/queue/work.hpp"

namespace verbena::sim {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Bytes that anyone can recompute from (key, offset).
std::uint8_t pattern(std::uint64_t key, std::uint64_t offset);
void fill_pattern(std::span<std::uint8_t> bytes, std::uint64_t key);
// Throws, with the place of the first difference.
void expect_pattern(std::span<const std::uint8_t> bytes, std::uint64_t key, const char* what);
void expect_equal(std::span<const std::uint8_t> actual, std::span<const std::uint8_t> expected,
                  const char* what);

// What a request still owes its poster.
struct ExpectedCompletion {
  std::uint64_t id = 0;
  queue::CompletionOpcode opcode{};
  bool signaled = true;
  std::size_t result_offset = 0;          // in the poster's result memory
  std::vector<std::uint8_t> result;       // READ: the bytes that must have come
  bool counts = false;                    // FETCH_ADD on the shared counter
  std::optional<std::uint64_t> original;  // an atomic on the poster's own word
};

// What a message still owes its receiver.
struct ExpectedMessage {
  std::uint32_t length = 0;
  std::uint64_t pattern_key = 0;
  bool is_write = false;  // WRITE_WITH_IMM: no bytes in the receive
  std::optional<std::uint32_t> immediate;
  std::uint64_t heard = 0;    // so many of its receiver's requests the sender had heard of
  std::uint64_t request = 0;  // which of the sender's it is
};

// Tickets drawn from a shared counter by FETCH_ADD 1: each exactly once.
class Tickets {
 public:
  void draw(std::uint64_t ticket);
  void expect_total(std::uint64_t counter) const;

 private:
  std::set<std::uint64_t> drawn_;
};

// The requests of one queue pair in posting order.
class CompletionModel {
 public:
  void posted(ExpectedCompletion expected) { pending_.push_back(std::move(expected)); }
  // The request that this completion belongs to, with the unsignaled ones before it done, too.
  ExpectedCompletion completed(const queue::Completion& completion);
  bool is_done() const;
  // Requests that have their slots in the send queue: what is behind the last that has completed.
  std::size_t outstanding() const { return pending_.size(); }
  // Of the first `heard` requests that were posted each has completed that is signaled. (Their ids
  // are 0, 1, 2 ...)
  bool has_heard_of(std::uint64_t heard) const;

 private:
  std::deque<ExpectedCompletion> pending_;
};

}  // namespace verbena::sim
