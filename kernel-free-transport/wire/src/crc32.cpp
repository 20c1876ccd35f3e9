// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/wire/crc32.hpp"

#include <algorithm>
#include <array>

#include "crc32_words.hpp"
#include "polynomial.hpp"
#include "verbena/base/check.hpp"
#include "verbena/base/guarded_copy.hpp"
#include "verbena/wire/bytes.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace verbena::wire {
namespace {

// Copies in one pass process whole strides.
constexpr std::size_t kStride = 256;

// For processors without carry-less multiplication.
std::uint32_t past_zeros_words(std::uint32_t r, std::size_t which) {
  constexpr std::array<std::uint32_t, kCrc32Joined.size()> kFactors{
      polynomial::power_of_x(8 * kCrc32Joined[0]), polynomial::power_of_x(8 * kCrc32Joined[1]),
      polynomial::power_of_x(8 * kCrc32Joined[2])};
  return polynomial::product(r, kFactors[which]);
}

#if defined(__x86_64__)

// Folding: sixteen bytes of the message in a vector, first byte lowest, are a polynomial whose
// first half is worth x^64 more than its second. Moving them `bits` forward in the message
// multiplies the first half by x^(bits+64) and the second by x^bits. The product of two reflected
// 64-bit numbers comes out one place low and the constants have 32 bits, so the constants are
// x^(bits+32) and x^(bits-32), shifted left by one.
constexpr long long fold_constant(unsigned exponent) {
  const std::uint64_t shifted = std::uint64_t{polynomial::power_of_x(exponent)} << 1;
  return static_cast<long long>(shifted);
}
struct FoldConstants {
  long long first, second;
};
constexpr FoldConstants fold_by(unsigned bits) {
  return {fold_constant(bits + 32), fold_constant(bits - 32)};
}
constexpr FoldConstants kFold128 = fold_by(128);
constexpr FoldConstants kFold256 = fold_by(256);
constexpr FoldConstants kFold384 = fold_by(384);
constexpr FoldConstants kFold512 = fold_by(512);
constexpr FoldConstants kFold1024 = fold_by(1024);
constexpr FoldConstants kFold1536 = fold_by(1536);
constexpr FoldConstants kFold2048 = fold_by(2048);

// Constants of the Barrett reduction: the polynomial, and x^64 divided by it. Both are reflected
// and have 33 bits.
constexpr long long kPolynomial = (static_cast<long long>(polynomial::kReflected) << 1) | 1;
constexpr long long kQuotient = [] {
  long long quotient = 1;  // bit 0 is the coefficient of x^32
  std::uint32_t rest = polynomial::kReflected;
  for (int bit = 1; bit <= 32; ++bit) {
    if ((rest & 1) != 0) quotient |= 1ll << bit;
    // The lowest bit is the highest power of the rest.
    rest = (rest >> 1) ^ ((rest & 1) != 0 ? polynomial::kReflected : 0);
  }
  return quotient;
}();

// Indexes for byte shuffles: 0 to 15, with entries before and behind that yield zero.
alignas(16) constexpr std::uint8_t kBytesUp[48] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80};

#define VERBENA_INLINE inline __attribute__((always_inline))
#define VERBENA_CLMUL __attribute__((target("pclmul,sse4.1")))
#define VERBENA_VCLMUL __attribute__((target("pclmul,sse4.1,avx512f,vpclmulqdq")))

VERBENA_CLMUL VERBENA_INLINE __m128i load16(const std::uint8_t* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

VERBENA_CLMUL VERBENA_INLINE __m128i fold(__m128i acc, __m128i constants, __m128i next) {
  const __m128i first = _mm_clmulepi64_si128(acc, constants, 0x00);
  const __m128i second = _mm_clmulepi64_si128(acc, constants, 0x11);
  return _mm_xor_si128(_mm_xor_si128(first, second), next);
}

// Returns what enters the register with the first sixteen bytes.
VERBENA_CLMUL VERBENA_INLINE __m128i start(std::uint32_t crc, __m128i bytes, std::uint64_t ones) {
  const __m128i with_ones = _mm_or_si128(bytes, _mm_cvtsi64_si128(static_cast<long long>(ones)));
  return _mm_xor_si128(with_ones, _mm_cvtsi32_si128(static_cast<int>(~crc)));
}

// Reduces the last sixteen bytes: from 128 bits to 96, to 64, and to the 32 of the remainder.
VERBENA_CLMUL VERBENA_INLINE std::uint32_t remainder_of(__m128i acc) {
  const __m128i to_96 = _mm_cvtsi64_si128(fold_constant(96));
  const __m128i to_64 = _mm_cvtsi64_si128(fold_constant(64));
  const __m128i barrett = _mm_set_epi64x(kQuotient, kPolynomial);
  const __m128i low_32 = _mm_cvtsi64_si128(0xffffffff);
  const __m128i of_96 =
      _mm_xor_si128(_mm_clmulepi64_si128(acc, to_96, 0x00), _mm_srli_si128(acc, 8));
  const __m128i of_64 = _mm_xor_si128(
      _mm_clmulepi64_si128(_mm_and_si128(of_96, low_32), to_64, 0x00), _mm_srli_si128(of_96, 4));
  const __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(of_64, low_32), barrett, 0x10);
  const __m128i product = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_32), barrett, 0x00);
  return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(product, of_64), 1));
}

// Folds the last bytes: fewer than sixteen, with at least sixteen before them. The accumulator
// moves up to make room, and the part that it loses is folded back.
VERBENA_CLMUL VERBENA_INLINE __m128i fold_tail(__m128i acc, const std::uint8_t* data,
                                               std::size_t length) {
  const __m128i fold128 = _mm_set_epi64x(kFold128.second, kFold128.first);
  const __m128i down = load16(kBytesUp + length);
  const __m128i up = load16(kBytesUp + 16 + length);
  const __m128i leaves = _mm_shuffle_epi8(acc, down);
  const __m128i stays = _mm_shuffle_epi8(acc, up);
  const __m128i last = _mm_blendv_epi8(load16(data + length - 16), stays, down);
  return fold(leaves, fold128, last);
}

VERBENA_CLMUL VERBENA_INLINE std::uint32_t finish(__m128i acc, const std::uint8_t* data,
                                                  std::size_t length) {
  const __m128i fold128 = _mm_set_epi64x(kFold128.second, kFold128.first);
  for (; length >= 16; data += 16, length -= 16) acc = fold(acc, fold128, load16(data));
  if (length != 0) acc = fold_tail(acc, data, length);
  return ~remainder_of(acc);
}

// Reads sixteen bytes once and copies them. If they are gone, `failed` becomes 1.
VERBENA_CLMUL VERBENA_INLINE __m128i take16(std::uint8_t* to, const std::uint8_t* from,
                                            std::uint32_t& failed) {
#if defined(VERBENA_GUARDS)
  __m128i bytes;
  asm volatile(VERBENA_GUARDED_VALUE("movdqu %[from], %[bytes]")
               : [bytes] "=x"(bytes), [failed] "+r"(failed)
               : [from] "m"(*reinterpret_cast<const std::uint8_t(*)[16]>(from)));
#else
  const __m128i bytes = load16(from);
  (void)failed;
#endif
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
  return bytes;
}

// Folds each vector by its distance to the last one, so that no multiplication waits for another.
VERBENA_CLMUL VERBENA_INLINE __m128i fold_four(__m128i a, __m128i b, __m128i c, __m128i d) {
  const __m128i fold128 = _mm_set_epi64x(kFold128.second, kFold128.first);
  const __m128i fold256 = _mm_set_epi64x(kFold256.second, kFold256.first);
  const __m128i fold384 = _mm_set_epi64x(kFold384.second, kFold384.first);
  return fold(a, fold384, fold(b, fold256, fold(c, fold128, d)));
}

// Takes eight to fifteen bytes as sixteen with leading zeros, which change nothing.
VERBENA_CLMUL VERBENA_INLINE std::uint32_t crc32_short(std::uint32_t crc, const std::uint8_t* data,
                                                       std::size_t length, std::uint64_t ones) {
  const std::uint64_t behind_first = load_le64(data + length - 8) >> 8 >> (8 * (15 - length));
  const __m128i bytes =
      _mm_set_epi64x(static_cast<long long>(behind_first), static_cast<long long>(load_le64(data)));
  const __m128i acc = start(crc, bytes, ones);
  return ~remainder_of(_mm_shuffle_epi8(acc, load16(kBytesUp + length)));
}

// Folds over the following part, except for sixteen bytes, which remainder_of() accounts for.
constexpr std::array<long long, kCrc32Joined.size()> kFoldJoined = [] {
  std::array<long long, kCrc32Joined.size()> constants{};
  for (std::size_t i = 0; i < kCrc32Joined.size(); ++i) {
    constants[i] = fold_by(static_cast<unsigned>(8 * (kCrc32Joined[i] - 16))).first;
  }
  return constants;
}();
VERBENA_CLMUL std::uint32_t past_zeros_clmul(std::uint32_t r, std::size_t which) {
  return remainder_of(_mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(r)),
                                           _mm_cvtsi64_si128(kFoldJoined[which]), 0x00));
}

VERBENA_CLMUL std::uint32_t crc32_clmul(std::uint32_t crc, const std::uint8_t* data,
                                        std::size_t length, std::uint64_t ones) {
  if (length < 8) return crc32_words(crc, data, length, ones);
  if (length < 16) return crc32_short(crc, data, length, ones);
  __m128i a = start(crc, load16(data), ones);
  if (length < 128) return finish(a, data + 16, length - 16);

  __m128i b = load16(data + 16);
  __m128i c = load16(data + 32);
  __m128i d = load16(data + 48);
  const __m128i fold512 = _mm_set_epi64x(kFold512.second, kFold512.first);
  for (data += 64, length -= 64; length >= 64; data += 64, length -= 64) {
    a = fold(a, fold512, load16(data));
    b = fold(b, fold512, load16(data + 16));
    c = fold(c, fold512, load16(data + 32));
    d = fold(d, fold512, load16(data + 48));
  }
  return finish(fold_four(a, b, c, d), data, length);
}

VERBENA_CLMUL bool copy_clmul(std::uint8_t* to, const std::uint8_t* from, std::size_t length,
                              std::uint32_t& sum) {
  std::uint32_t failed = 0;
  const auto take = [&](std::size_t at)
                        VERBENA_CLMUL { return take16(to + at, from + at, failed); };
  __m128i a = start(0, take(0), 0);
  __m128i b = take(16);
  __m128i c = take(32);
  __m128i d = take(48);
  const __m128i fold512 = _mm_set_epi64x(kFold512.second, kFold512.first);
  for (std::size_t at = 64; at < length; at += 64) {
    a = fold(a, fold512, take(at));
    b = fold(b, fold512, take(at + 16));
    c = fold(c, fold512, take(at + 32));
    d = fold(d, fold512, take(at + 48));
  }
  sum = ~remainder_of(fold_four(a, b, c, d));
  return failed == 0;
}

VERBENA_VCLMUL VERBENA_INLINE __m512i fold(__m512i acc, __m512i constants, __m512i next) {
  const __m512i first = _mm512_clmulepi64_epi128(acc, constants, 0x00);
  const __m512i second = _mm512_clmulepi64_epi128(acc, constants, 0x11);
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(first, second, next, kXorOfThree);
}
VERBENA_VCLMUL VERBENA_INLINE __m512i spread(FoldConstants k) {
  return _mm512_set_epi64(k.second, k.first, k.second, k.first, k.second, k.first, k.second,
                          k.first);
}

// Uses the masked intrinsic with a full mask, because compilers see an uninitialised value in the
// plain one.
template <int kWhich>
VERBENA_VCLMUL VERBENA_INLINE __m128i quarter(__m512i v) {
  return _mm512_maskz_extracti32x4_epi32(0xf, v, kWhich);
}

VERBENA_VCLMUL VERBENA_INLINE __m512i fold_four(__m512i a, __m512i b, __m512i c, __m512i d) {
  return fold(a, spread(kFold1536), fold(b, spread(kFold1024), fold(c, spread(kFold512), d)));
}
VERBENA_VCLMUL VERBENA_INLINE __m128i fold_quarters(__m512i all) {
  return fold_four(quarter<0>(all), quarter<1>(all), quarter<2>(all), quarter<3>(all));
}

// Reads 64 bytes once and copies them. If they are gone, `failed` becomes 1.
VERBENA_VCLMUL VERBENA_INLINE __m512i take64(std::uint8_t* to, const std::uint8_t* from,
                                             std::uint32_t& failed) {
#if defined(VERBENA_GUARDS)
  __m512i bytes;
  asm volatile(VERBENA_GUARDED_VALUE("vmovdqu64 %[from], %[bytes]")
               : [bytes] "=v"(bytes), [failed] "+r"(failed)
               : [from] "m"(*reinterpret_cast<const std::uint8_t(*)[64]>(from)));
#else
  const __m512i bytes = _mm512_loadu_si512(from);
  (void)failed;
#endif
  _mm512_storeu_si512(to, bytes);
  return bytes;
}

VERBENA_VCLMUL bool copy_vclmul(std::uint8_t* to, const std::uint8_t* from, std::size_t length,
                                std::uint32_t& sum) {
  std::uint32_t failed = 0;
  const auto take = [&](std::size_t at)
                        VERBENA_VCLMUL { return take64(to + at, from + at, failed); };
  __m512i a = take(0);
  a = _mm512_inserti32x4(a, start(0, quarter<0>(a), 0), 0);
  __m512i b = take(64);
  __m512i c = take(128);
  __m512i d = take(192);
  const __m512i fold2048 = spread(kFold2048);
  for (std::size_t at = kStride; at < length; at += kStride) {
    a = fold(a, fold2048, take(at));
    b = fold(b, fold2048, take(at + 64));
    c = fold(c, fold2048, take(at + 128));
    d = fold(d, fold2048, take(at + 192));
  }
  sum = ~remainder_of(fold_quarters(fold_four(a, b, c, d)));
  _mm256_zeroupper();
  return failed == 0;
}

VERBENA_VCLMUL std::uint32_t crc32_vclmul(std::uint32_t crc, const std::uint8_t* data,
                                          std::size_t length, std::uint64_t ones) {
  if (length < 256) return crc32_clmul(crc, data, length, ones);
  __m512i a = _mm512_inserti32x4(_mm512_loadu_si512(data), start(crc, load16(data), ones), 0);
  __m512i b = _mm512_loadu_si512(data + 64);
  __m512i c = _mm512_loadu_si512(data + 128);
  __m512i d = _mm512_loadu_si512(data + 192);
  const __m512i fold2048 = spread(kFold2048);
  for (data += 256, length -= 256; length >= 256; data += 256, length -= 256) {
    a = fold(a, fold2048, _mm512_loadu_si512(data));
    b = fold(b, fold2048, _mm512_loadu_si512(data + 64));
    c = fold(c, fold2048, _mm512_loadu_si512(data + 128));
    d = fold(d, fold2048, _mm512_loadu_si512(data + 192));
  }
  const __m512i fold512 = spread(kFold512);
  __m512i all = fold_four(a, b, c, d);
  for (; length >= 64; data += 64, length -= 64) {
    all = fold(all, fold512, _mm512_loadu_si512(data));
  }
  const std::uint32_t result = finish(fold_quarters(all), data, length);
  // While the upper halves are in use, every SSE instruction of the program waits for them.
  _mm256_zeroupper();
  return result;
}

bool has_clmul() { return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1"); }
bool has_vclmul() {
  return has_clmul() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
}

#else

constexpr auto* crc32_clmul = &crc32_words;
constexpr auto* crc32_vclmul = &crc32_words;
constexpr auto* copy_clmul = &copy_words;
constexpr auto* copy_vclmul = &copy_words;
constexpr auto* past_zeros_clmul = &past_zeros_words;
bool has_clmul() { return false; }
bool has_vclmul() { return false; }

#endif

// Returns the fastest usable variant. The last variant is always usable.
[[gnu::cold]] const Crc32Variant& first_usable() {
  const Crc32Variant* variant = crc32_variants();
  while (!variant->usable) ++variant;
  return *variant;
}

// The selected variant; null until this file's initialisers have run.
const Crc32Variant* const chosen = &first_usable();

const Crc32Variant& variant() { return chosen != nullptr ? *chosen : first_usable(); }

}  // namespace

std::uint32_t crc32(std::uint32_t crc, const std::uint8_t* data, std::size_t length,
                    std::uint64_t ones) {
  return variant().function(crc, data, length, ones);
}

bool crc32_copy(std::uint8_t* to, const std::uint8_t* from, std::size_t length,
                std::uint32_t& sum) {
  if (length != 0 && length % kStride == 0) [[likely]]
    return variant().copy(to, from, length, sum);
  if (!guarded_copy(to, from, length)) return false;
  sum = crc32(0, to, length);
  return true;
}

std::uint32_t crc32_join(std::uint32_t first, std::uint32_t second, std::size_t second_length) {
  const std::size_t which = crc32_which_joined(second_length);
  VERBENA_CHECK(which != kCrc32Joined.size());
  return variant().past_zeros(first, which) ^ second;
}

const Crc32Variant& crc32_variant() { return variant(); }

const Crc32Variant* crc32_variants() {
  static const std::array<Crc32Variant, kCrc32Variants> variants{{
      {"vpclmulqdq", has_vclmul(), crc32_vclmul, copy_vclmul, past_zeros_clmul},
      {"pclmulqdq", has_clmul(), crc32_clmul, copy_clmul, past_zeros_clmul},
      {"words", true, crc32_words, copy_words, past_zeros_words},
  }};
  return variants.data();
}

}  // namespace verbena::wire
