// SPDX-License-Identifier: BSD-2-Clause
#include "crc32_words.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "polynomial.hpp"
#include "verbena/base/guarded_copy.hpp"
#include "verbena/wire/bytes.hpp"

namespace verbena::wire {
namespace {

using polynomial::kByteTables;

// Takes eight bytes per step, then four, then one. It works on the bare register (not inverted).
std::uint32_t table_step(std::uint32_t r, const std::uint8_t* data, std::size_t length) {
  const auto& t = kByteTables;
  for (; length >= 8; data += 8, length -= 8) {
    const std::uint32_t a = r ^ load_le32(data);
    const std::uint32_t b = load_le32(data + 4);
    r = t[7][a & 0xff] ^ t[6][a >> 8 & 0xff] ^ t[5][a >> 16 & 0xff] ^ t[4][a >> 24] ^
        t[3][b & 0xff] ^ t[2][b >> 8 & 0xff] ^ t[1][b >> 16 & 0xff] ^ t[0][b >> 24];
  }
  if (length >= 4) {
    const std::uint32_t a = r ^ load_le32(data);
    r = t[3][a & 0xff] ^ t[2][a >> 8 & 0xff] ^ t[1][a >> 16 & 0xff] ^ t[0][a >> 24];
    data += 4;
    length -= 4;
  }
  for (; length != 0; ++data, --length) r = (r >> 8) ^ t[0][(r ^ *data) & 0xff];
  return r;
}

// Bits may be removed from a message if they are added again kLater bits further on, for each
// kLater, provided that the polynomial divides the sum of these places and the first one. If the
// places are few, a few shifts remove eight bytes, three times as fast as table look-ups.
template <unsigned... kLater>
class Sparse {
 public:
  static constexpr unsigned kFarthest = std::max({kLater...});
  static constexpr std::size_t kWords = kFarthest / 64 + 1;
  static constexpr std::size_t kBytes = 8 * kWords;

  // `first` is added to the first word.
  explicit Sparse(std::uint64_t first) { added_[0] = first; }

  // Removes the next word. Its index modulo kWords is kTurn.
  template <std::size_t kTurn>
  [[gnu::always_inline]] void take(std::uint64_t word) {
    word ^= added_[kTurn];
    added_[kTurn] = 0;
    (add<kTurn, kLater>(word), ...);
  }
  // What has to be added to the next words.
  const std::array<std::uint64_t, kWords>& added() const { return added_; }

 private:
  static_assert((polynomial::power_of_x(kFarthest) ^ ... ^
                 polynomial::power_of_x(kFarthest - kLater)) == 0);
  static_assert(std::min({kLater...}) >= 64);

  template <std::size_t kTurn, unsigned kBits>
  void add(std::uint64_t word) {
    constexpr std::size_t kTo = kTurn + kBits / 64;
    added_[kTo % kWords] ^= word << (kBits % 64);
    added_[(kTo + 1) % kWords] ^= word >> (64 - kBits % 64);
    static_assert(kBits % 64 != 0);
  }

  std::array<std::uint64_t, kWords> added_{};
};
using Far = Sparse<145, 183, 211, 300>;

struct Read {
  std::uint64_t word(std::size_t at) const { return load_le64(from + at); }
  void advance(std::size_t bytes) { from += bytes; }

  const std::uint8_t* from;
};

// Reads memory that may be gone, and copies each word that it reads.
struct Copied {
  [[gnu::always_inline]] std::uint64_t word(std::size_t at) const {
    const std::uint64_t there = guarded_moves::load(from + at, *failed);
    std::uint8_t bytes[sizeof there];
    std::memcpy(bytes, &there, sizeof there);
    const std::uint64_t word = load_le64(bytes);
    store_le64(to + at, word);
    return word;
  }
  void advance(std::size_t bytes) {
    to += bytes;
    from += bytes;
  }

  std::uint8_t* to;
  const std::uint8_t* from;
  std::uint32_t* failed;
};

// Returns the bare register after `length` bytes, at least Far::kBytes. Bytes behind the last whole
// word are read but not copied.
template <typename Words>
[[gnu::always_inline]] inline std::uint32_t sum_words(Words words, std::size_t length,
                                                      std::uint64_t added_to_first) {
  Far far(added_to_first);
  for (; length >= 2 * Far::kBytes; length -= Far::kBytes) {
    far.take<0>(words.word(0));
    far.take<1>(words.word(8));
    far.take<2>(words.word(16));
    far.take<3>(words.word(24));
    far.take<4>(words.word(32));
    words.advance(Far::kBytes);
  }
  std::uint8_t last[2 * Far::kBytes];
  const std::size_t whole = length / 8 * 8;
  for (std::size_t at = 0; at < whole; at += 8) {
    const std::uint64_t added = at < Far::kBytes ? far.added()[at / 8] : 0;
    store_le64(last + at, words.word(at) ^ added);
  }
  return table_step(table_step(0, last, whole), words.from + whole, length - whole);
}

}  // namespace

std::uint32_t crc32_words(std::uint32_t crc, const std::uint8_t* data, std::size_t length,
                          std::uint64_t ones) {
  if (length >= Far::kBytes) {
    return ~sum_words(Read{data}, length, ~crc ^ (ones & ~load_le64(data)));
  }
  if (ones == 0 || length < 8) return ~table_step(~crc, data, length);
  std::uint8_t first[8];
  store_le64(first, load_le64(data) | ones);
  return ~table_step(table_step(~crc, first, sizeof first), data + 8, length - 8);
}

bool copy_words(std::uint8_t* to, const std::uint8_t* from, std::size_t length,
                std::uint32_t& sum) {
  std::uint32_t failed = 0;
  sum = ~sum_words(Copied{to, from, &failed}, length, ~std::uint32_t{0});
  return failed == 0;
}

}  // namespace verbena::wire
