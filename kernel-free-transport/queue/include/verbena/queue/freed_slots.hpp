// SPDX-License-Identifier: BSD-2-Clause
// How many slots of work queues are free again because their completions were polled. As with an
// adapter, a request keeps its slot after it was executed, until the program has polled its
// completion or, if it is unsignaled, that of a later request. A completion queue keeps one count
// (an account) for each work queue that completes there. A completion carries the account's number
// and how many slots it frees. The polling thread counts; a posting thread reads the count when it
// finds the queue full.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace verbena::queue {

class FreedSlots {
 public:
  // Returns the number of slots ever freed, which wraps. If a freed slot is seen late, it is only
  // free late, so nothing is ordered.
  std::uint32_t total() const noexcept { return polled_.load(std::memory_order_relaxed); }
  // Counts slots of polled completions. Called under the queue's lock.
  void add_polled(std::uint32_t slots) noexcept {
    polled_.store(polled_.load(std::memory_order_relaxed) + slots, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint32_t> polled_{0};
};

// The accounts of one completion queue, by number. An account never moves, so it can be read while
// others are opened. Account 0 is for completions that free nothing. open() and close() are called
// under the queue's lock.
class SlotAccounts {
 public:
  FreedSlots& at(std::uint32_t number) noexcept {
    if (number < few_.size()) [[likely]]
      return few_[number];
    return pieces_[piece_of(number)][number + 1 - std::bit_floor(number + 1)];
  }
  // Returns the number of an unused account. Throws std::bad_alloc.
  std::uint32_t open() {
    if (!unused_.empty()) {
      const std::uint32_t number = unused_.back();
      unused_.pop_back();
      return number;
    }
    const unsigned piece = piece_of(next_);
    if (piece >= kFirst + kMore) throw std::bad_alloc();
    unused_.reserve(next_);
    if (pieces_[piece] == nullptr) {
      more_[piece - kFirst] = std::make_unique<FreedSlots[]>(std::size_t{1} << piece);
      pieces_[piece] = more_[piece - kFirst].get();
    }
    return next_++;
  }
  void close(std::uint32_t number) noexcept { unused_.push_back(number); }

 private:
  // Piece n has 2^n accounts. The first two pieces, three accounts together, are members: most
  // completion queues serve one send queue and one receive queue.
  static constexpr unsigned kFirst = 2;
  static constexpr unsigned kMore = 22;
  static unsigned piece_of(std::uint32_t number) noexcept {
    return static_cast<unsigned>(std::bit_width(std::uint64_t{number} + 1)) - 1;
  }

  std::array<FreedSlots, 3> few_;
  std::array<FreedSlots*, kFirst + kMore> pieces_{few_.data(), few_.data() + 1};
  std::array<std::unique_ptr<FreedSlots[]>, kMore> more_;
  std::uint32_t next_ = 1;
  std::vector<std::uint32_t> unused_;
};

}  // namespace verbena::queue
