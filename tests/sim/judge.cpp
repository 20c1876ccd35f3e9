// SPDX-License-Identifier: BSD-2-Clause
#include "judge.hpp"

#include <algorithm>

namespace verbena::sim {

std::uint8_t pattern(std::uint64_t key, std::uint64_t offset) {
  std::uint64_t z = (key + 0x9e3779b97f4a7c15ull * (offset / 8 + 1));
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z ^= z >> 27;
  return static_cast<std::uint8_t>(z >> (8 * (offset % 8)));
}

void fill_pattern(std::span<std::uint8_t> bytes, std::uint64_t key) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(key, i);
}

void expect_pattern(std::span<const std::uint8_t> bytes, std::uint64_t key, const char* what) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != pattern(key, i)) {
      throw Failure(std::string(what) + ": wrong byte at offset " + std::to_string(i) + " of " +
                    std::to_string(bytes.size()));
    }
  }
}

void expect_equal(std::span<const std::uint8_t> actual, std::span<const std::uint8_t> expected,
                  const char* what) {
  const auto [a, e] = std::mismatch(actual.begin(), actual.end(), expected.begin(), expected.end());
  if (a != actual.end() || e != expected.end()) {
    throw Failure(std::string(what) + ": differs at offset " + std::to_string(a - actual.begin()) +
                  " of " + std::to_string(expected.size()));
  }
}

void Tickets::draw(std::uint64_t ticket) {
  if (!drawn_.insert(ticket).second) {
    throw Failure("an atomic happened twice or its answer was made up: ticket " +
                  std::to_string(ticket));
  }
}

void Tickets::expect_total(std::uint64_t counter) const {
  if (counter != drawn_.size() || (!drawn_.empty() && *drawn_.rbegin() != counter - 1)) {
    throw Failure("the shared counter stands at " + std::to_string(counter) + " after " +
                  std::to_string(drawn_.size()) + " increments");
  }
}

ExpectedCompletion CompletionModel::completed(const queue::Completion& c) {
  while (!pending_.empty() && !pending_.front().signaled && pending_.front().id != c.id) {
    pending_.pop_front();
  }
  if (pending_.empty()) throw Failure("a completion for a request that nobody posted");
  ExpectedCompletion e = std::move(pending_.front());
  pending_.pop_front();
  if (e.id != c.id) {
    throw Failure("completion of wr_id " + std::to_string(c.id) + " before that of wr_id " +
                  std::to_string(e.id));
  }
  if (c.status != queue::Status::kSuccess) {
    throw Failure("wr_id " + std::to_string(c.id) + " failed: " + std::string(to_string(c.status)));
  }
  if (!e.signaled) throw Failure("an unsignaled request completed with success");
  if (e.opcode != c.opcode) throw Failure("a completion with the opcode of another operation");
  return e;
}

bool CompletionModel::has_heard_of(std::uint64_t heard) const {
  return std::none_of(pending_.begin(), pending_.end(),
                      [heard](const ExpectedCompletion& e) { return e.signaled && e.id < heard; });
}

bool CompletionModel::is_done() const {
  return std::none_of(pending_.begin(), pending_.end(),
                      [](const ExpectedCompletion& e) { return e.signaled; });
}

}  // namespace verbena::sim
