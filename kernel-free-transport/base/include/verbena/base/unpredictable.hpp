// SPDX-License-Identifier: BSD-2-Clause
// A generator whose numbers do not reveal the next ones. A stranger sees some of them on the wire
// (a queue pair number, a key, a communication ID) and must not be able to guess others. It is the
// ChaCha20 block function of RFC 8439 with a counter; the same seed gives the same numbers. One
// thread at a time may use it.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace verbena {

class UnpredictableRandom {
 public:
  using Key = std::array<std::uint32_t, 8>;

  explicit UnpredictableRandom(const Key& key) : key_(key) {}
  explicit UnpredictableRandom(std::uint64_t seed)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {}

  std::uint32_t next32() {
    if (used_ == block_.size()) fill();
    return block_[used_++];
  }
  std::uint64_t next() {
    const std::uint64_t low = next32();
    return low | std::uint64_t{next32()} << 32;
  }
  // Returns a number in [0, bound). `bound` is above 0 and has 32 bits: the bias of the remainder
  // of a 64-bit number does not matter.
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(next() % bound); }

 private:
  using Block = std::array<std::uint32_t, 16>;

  static void quarter_round(Block& x, unsigned a, unsigned b, unsigned c, unsigned d) {
    x[a] += x[b], x[d] = std::rotl(x[d] ^ x[a], 16);
    x[c] += x[d], x[b] = std::rotl(x[b] ^ x[c], 12);
    x[a] += x[b], x[d] = std::rotl(x[d] ^ x[a], 8);
    x[c] += x[d], x[b] = std::rotl(x[b] ^ x[c], 7);
  }

  // A block has constants, the key and a counter. The counter also fills the nonce's place, so no
  // block repeats.
  void fill() {
    Block start{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    for (unsigned i = 0; i < key_.size(); ++i) start[4 + i] = key_[i];
    start[12] = static_cast<std::uint32_t>(blocks_);
    start[13] = static_cast<std::uint32_t>(blocks_ >> 32);
    ++blocks_;
    block_ = start;
    for (int i = 0; i < 10; ++i) {
      for (unsigned column = 0; column < 4; ++column) {
        quarter_round(block_, column, column + 4, column + 8, column + 12);
      }
      for (unsigned column = 0; column < 4; ++column) {
        quarter_round(block_, column, (column + 1) % 4 + 4, (column + 2) % 4 + 8,
                      (column + 3) % 4 + 12);
      }
    }
    for (unsigned i = 0; i < start.size(); ++i) block_[i] += start[i];
    used_ = 0;
  }

  Key key_;
  std::uint64_t blocks_ = 0;
  Block block_{};
  std::size_t used_ = block_.size();
};

}  // namespace verbena
