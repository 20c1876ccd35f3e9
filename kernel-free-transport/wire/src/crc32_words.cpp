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

// Eight bytes a step, then four, then one. Works on the bare register (not inverted).
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

// A loop that is none in the end.
template <std::size_t kEnd, typename Step>
[[gnu::always_inline]] inline void for_each_below(Step&& step) {
  [&]<std::size_t... kAt>(std::index_sequence<kAt...>) { (step(kAt), ...); }
  (std::make_index_sequence<kEnd>{});
}

// What stands in a message may be taken out of it and added to what comes so many bits later, if
// the polynomial divides what these places and the first one make. With few places, eight bytes are
// taken out by a few shifts, three times as fast as by looking into tables (and so it is on an
// emulated processor, where each look takes as long as eight shifts).
template <unsigned... kLater>
class Sparse {
 public:
  static constexpr unsigned kFarthest = std::max({kLater...});
  static constexpr std::size_t kWords = kFarthest / 64 + 1;
  static constexpr std::size_t kBytes = 8 * kWords;

  Sparse() = default;
  // What is added to the first word.
  explicit Sparse(std::uint64_t first) { added_[0] = first; }

  // The next word. The turn goes round.
  template <std::size_t kTurn>
  [[gnu::always_inline]] void take(std::uint64_t word) {
    word ^= added_[kTurn];
    added_[kTurn] = 0;
    (add<kTurn, kLater>(word), ...);
  }
  // The next word, whose turn is 0, as it will be that of the one behind it.
  [[gnu::always_inline]] void take_and_turn(std::uint64_t word) {
    take<0>(word);
    const std::uint64_t last = added_[0];
    for_each_below<kWords - 1>([&](std::size_t i) { added_[i] = added_[i + 1]; });
    added_[kWords - 1] = last;
  }
  // To the words that come next.
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
// The first costs least; the second leaves less for the tables.
using Far = Sparse<145, 183, 211, 300>;
using Near = Sparse<68, 84, 92, 93, 124, 161>;

struct Read {
  std::uint64_t word(std::size_t at) const { return load_le64(from + at); }
  void advance(std::size_t bytes) { from += bytes; }

  const std::uint8_t* from;
};

// Of memory that may be gone. Copies each word that is asked for, if it shall.
template <bool kCopies>
struct Guarded {
  [[gnu::always_inline]] std::uint64_t word(std::size_t at) const {
    const std::uint64_t there = guarded_moves::load(from + at, *failed);
    std::uint8_t bytes[sizeof there];
    std::memcpy(bytes, &there, sizeof there);
    const std::uint64_t word = load_le64(bytes);
    if (kCopies) store_le64(to + at, word);
    return word;
  }
  void advance(std::size_t bytes) {
    if (kCopies) to += bytes;
    from += bytes;
  }

  std::uint8_t* to;
  const std::uint8_t* from;
  std::uint32_t* failed;
};

template <std::size_t kAt, typename Words>
[[gnu::always_inline]] inline void take_round(Far& far, const Words& words) {
  far.take<0>(words.word(kAt));
  far.take<1>(words.word(kAt + 8));
  far.take<2>(words.word(kAt + 16));
  far.take<3>(words.word(kAt + 24));
  far.take<4>(words.word(kAt + 32));
}

// The bare register after so many bytes, of which there are at least Near's; bytes behind the last
// word are only read.
template <typename Words>
[[gnu::always_inline]] inline std::uint32_t sum_words(Words words, std::size_t length,
                                                      std::uint64_t added_to_first) {
  Far far(added_to_first);
  // Two rounds at a time, as far as that goes: an emulated processor does them as one.
  for (; length >= 3 * Far::kBytes; length -= 2 * Far::kBytes) {
    take_round<0>(far, words);
    take_round<Far::kBytes>(far, words);
    words.advance(2 * Far::kBytes);
  }
  for (; length >= 2 * Far::kBytes; length -= Far::kBytes) {
    take_round<0>(far, words);
    words.advance(Far::kBytes);
  }
  std::uint64_t added[2 * Far::kWords]{};
  for_each_below<Far::kWords>([&](std::size_t i) { added[i] = far.added()[i]; });
  Near near;
  std::size_t taken = 0;
  for (; length >= Near::kBytes + 8; length -= 8, ++taken) {
    near.take_and_turn(words.word(8 * taken) ^ added[taken]);
  }
  std::uint8_t last[Near::kBytes];
  for_each_below<Near::kWords>([&](std::size_t i) {
    store_le64(last + 8 * i, words.word(8 * taken) ^ added[taken] ^ near.added()[i]);
    ++taken;
  });
  return table_step(table_step(0, last, sizeof last), words.from + 8 * taken, length - sizeof last);
}

}  // namespace

// An emulated processor goes on within a page of code as if it were one piece, but not from one to
// the next: a loop that lies in two takes three times as long.
#define VERBENA_IN_ONE_PAGE gnu::aligned(4096)

[[VERBENA_IN_ONE_PAGE]] std::uint32_t crc32_words(std::uint32_t crc, const std::uint8_t* data,
                                                  std::size_t length, std::uint64_t ones) {
  if (length >= Far::kBytes) {
    return ~sum_words(Read{data}, length, ~crc ^ (ones & ~load_le64(data)));
  }
  if (ones == 0 || length < 8) return ~table_step(~crc, data, length);
  std::uint8_t first[8];
  store_le64(first, load_le64(data) | ones);
  return ~table_step(table_step(~crc, first, sizeof first), data + 8, length - 8);
}

[[VERBENA_IN_ONE_PAGE]] bool copy_words(std::uint8_t* to, const std::uint8_t* from,
                                        std::size_t length, std::uint32_t& sum) {
  std::uint32_t failed = 0;
  sum = ~sum_words(Guarded<true>{to, from, &failed}, length, ~std::uint32_t{0});
  return failed == 0;
}

[[VERBENA_IN_ONE_PAGE]] bool look_words(const std::uint8_t* from, std::size_t length,
                                        std::uint32_t& sum) {
  std::uint32_t failed = 0;
  sum = ~sum_words(Guarded<false>{nullptr, from, &failed}, length, ~std::uint32_t{0});
  return failed == 0;
}

}  // namespace verbena::wire
