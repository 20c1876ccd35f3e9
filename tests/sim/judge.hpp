// SPDX-License-Identifier: BSD-2-Clause
// The independent model that judges the traffic. It keeps what each operation must have done as
// plain bytes and queues, and knows nothing of packets. It throws `Failure` at a difference.
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

// Bytes that can be computed again from (key, offset).
std::uint8_t pattern(std::uint64_t key, std::uint64_t offset);
void fill_pattern(std::span<std::uint8_t> bytes, std::uint64_t key);
// These throw, and name the place of the first difference.
void expect_pattern(std::span<const std::uint8_t> bytes, std::uint64_t key, const char* what);
void expect_equal(std::span<const std::uint8_t> actual, std::span<const std::uint8_t> expected,
                  const char* what);

// The completion that a request still has to bring.
struct ExpectedCompletion {
  std::uint64_t id = 0;
  queue::CompletionOpcode opcode{};
  bool signaled = true;
  std::size_t result_offset = 0;          // place in the poster's result memory
  std::vector<std::uint8_t> result;       // READ: the bytes that must arrive
  bool counts = false;                    // FETCH_ADD on the shared counter
  std::optional<std::uint64_t> original;  // value before an atomic on the poster's own word
};

// The message that a receiver still has to get.
struct ExpectedMessage {
  std::uint32_t length = 0;
  std::uint64_t pattern_key = 0;
  bool is_write = false;  // WRITE_WITH_IMM: puts no bytes into the receive
  std::optional<std::uint32_t> immediate;
  std::uint64_t heard = 0;    // how many of its receiver's requests the sender knew of
  std::uint64_t request = 0;  // the sender's request that carries it
};

// Tickets that FETCH_ADD 1 draws from a shared counter: each is drawn exactly once.
class Tickets {
 public:
  void draw(std::uint64_t ticket);
  void expect_total(std::uint64_t counter) const;

 private:
  std::set<std::uint64_t> drawn_;
};

// The requests of one queue pair, in posting order.
class CompletionModel {
 public:
  void posted(ExpectedCompletion expected) { pending_.push_back(std::move(expected)); }
  // Returns the request of this completion. The unsignaled requests before it are done then.
  ExpectedCompletion completed(const queue::Completion& completion);
  bool is_done() const;
  // Requests that still have slots in the send queue: those behind the last one that has completed.
  std::size_t outstanding() const { return pending_.size(); }
  // Whether all signaled ones of the first `heard` requests (ids 0, 1, 2 ...) have completed.
  bool has_heard_of(std::uint64_t heard) const;

 private:
  std::deque<ExpectedCompletion> pending_;
};

}  // namespace verbena::sim
