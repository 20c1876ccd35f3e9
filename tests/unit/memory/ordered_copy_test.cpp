// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/memory/ordered_copy.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace verbena::memory {
namespace {

TEST(OrderedCopy, CopiesEveryLengthToEveryAlignmentAndNothingElse) {
  std::vector<std::uint8_t> from(160);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i + 1);
  for (std::size_t length = 0; length <= 100; ++length) {
    for (std::size_t to_shift = 0; to_shift < 16; ++to_shift) {
      for (std::size_t from_shift = 0; from_shift < 8; ++from_shift) {
        alignas(16) std::uint8_t to[160] = {};
        ASSERT_TRUE(ordered_copy(to + to_shift, from.data() + from_shift, length));
        for (std::size_t i = 0; i < sizeof to; ++i) {
          const bool inside = i >= to_shift && i < to_shift + length;
          ASSERT_EQ(to[i], inside ? from[i - to_shift + from_shift] : 0)
              << "length " << length << " to +" << to_shift << " from +" << from_shift;
        }
      }
    }
  }
}

// An application that polls the last word of a buffer finds the rest complete.
TEST(OrderedCopy, TheLastWordIsSeenAfterAllOthers) {
  constexpr std::size_t kWords = 32;
  constexpr std::uint64_t kRounds = 2000;
  alignas(64) static std::uint64_t buffer[kWords];
  std::atomic<std::uint64_t> seen{0};
  std::thread writer([&] {
    std::uint64_t round[kWords];
    for (std::uint64_t n = 1; n <= kRounds; ++n) {
      for (std::uint64_t& word : round) word = n;
      // Only the end is written in order. The words before it are plain copies, and may be read
      // only in the round that wrote them.
      while (seen.load(std::memory_order_acquire) != n - 1) std::this_thread::yield();
      EXPECT_TRUE(ordered_copy(reinterpret_cast<std::uint8_t*>(buffer), round, sizeof round));
    }
  });
  for (std::uint64_t n = 1; n <= kRounds; ++n) {
    while (__atomic_load_n(&buffer[kWords - 1], __ATOMIC_ACQUIRE) != n) std::this_thread::yield();
    for (std::size_t i = 0; i + 1 < kWords; ++i) EXPECT_EQ(buffer[i], n);
    seen.store(n, std::memory_order_release);
  }
  writer.join();
}

}  // namespace
}  // namespace verbena::memory
