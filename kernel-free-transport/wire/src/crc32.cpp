#include "verbena/wire/crc32.hpp"

#include <array>

#include "polynomial.hpp"
#include "verbena/wire/bytes.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

std::uint32_t crc32_tables(std::uint32_t crc, const std::uint8_t* data, std::size_t length) {
  return ~table_step(~crc, data, length);
}

#if defined(__x86_64__)

// Folding: sixteen bytes of message, held in a vector with the first byte lowest, stand for a
// polynomial whose first half is worth x^64 more than its second. Moving them `bits` further up
// the message multiplies the first half by x^(bits+64) and the second by x^bits; as the product of
// two reflected 64-bit numbers comes out one place low and the constants have 32 bits, the
// constants are x^(bits+32) and x^(bits-32), shifted left by one.
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
constexpr FoldConstants kFold512 = fold_by(512);
constexpr FoldConstants kFold2048 = fold_by(2048);

#define VERBENA_CLMUL __attribute__((target("pclmul,sse4.1")))
#define VERBENA_VCLMUL __attribute__((target("pclmul,sse4.1,avx512f,vpclmulqdq")))

VERBENA_CLMUL inline __m128i load16(const std::uint8_t* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

VERBENA_CLMUL inline __m128i fold(__m128i acc, __m128i constants, __m128i next) {
  const __m128i first = _mm_clmulepi64_si128(acc, constants, 0x00);
  const __m128i second = _mm_clmulepi64_si128(acc, constants, 0x11);
  return _mm_xor_si128(_mm_xor_si128(first, second), next);
}

// What is left when sixteen bytes have gathered everything: their remainder, and the tail.
VERBENA_CLMUL std::uint32_t finish(__m128i acc, const std::uint8_t* data, std::size_t length) {
  const __m128i fold128 = _mm_set_epi64x(kFold128.second, kFold128.first);
  for (; length >= 16; data += 16, length -= 16) acc = fold(acc, fold128, load16(data));
  alignas(16) std::uint8_t last[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(last), acc);
  return table_step(table_step(0, last, sizeof last), data, length);
}

VERBENA_CLMUL std::uint32_t crc32_clmul(std::uint32_t crc, const std::uint8_t* data,
                                        std::size_t length) {
  if (length < 32) return crc32_tables(crc, data, length);
  const __m128i start = _mm_cvtsi32_si128(static_cast<int>(~crc));
  if (length < 128) return ~finish(_mm_xor_si128(load16(data), start), data + 16, length - 16);

  __m128i a = _mm_xor_si128(load16(data), start);
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
  const __m128i fold128 = _mm_set_epi64x(kFold128.second, kFold128.first);
  const __m128i all = fold(fold(fold(a, fold128, b), fold128, c), fold128, d);
  return ~finish(all, data, length);
}

VERBENA_VCLMUL inline __m512i fold(__m512i acc, __m512i constants, __m512i next) {
  const __m512i first = _mm512_clmulepi64_epi128(acc, constants, 0x00);
  const __m512i second = _mm512_clmulepi64_epi128(acc, constants, 0x11);
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(first, second, next, kXorOfThree);
}
VERBENA_VCLMUL inline __m512i spread(FoldConstants k) {
  return _mm512_set_epi64(k.second, k.first, k.second, k.first, k.second, k.first, k.second,
                          k.first);
}

VERBENA_VCLMUL std::uint32_t crc32_vclmul(std::uint32_t crc, const std::uint8_t* data,
                                          std::size_t length) {
  if (length < 256) return crc32_clmul(crc, data, length);
  const __m512i start = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~crc)));
  __m512i a = _mm512_xor_si512(_mm512_loadu_si512(data), start);
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
  __m512i all = fold(fold(fold(a, fold512, b), fold512, c), fold512, d);
  for (; length >= 64; data += 64, length -= 64) {
    all = fold(all, fold512, _mm512_loadu_si512(data));
  }
  alignas(64) std::uint8_t gathered[64];
  _mm512_store_si512(gathered, all);
  const __m128i fold128 = _mm_set_epi64x(kFold128.second, kFold128.first);
  __m128i one = load16(gathered);
  for (std::size_t at = 16; at < sizeof gathered; at += 16) {
    one = fold(one, fold128, load16(gathered + at));
  }
  return ~finish(one, data, length);
}

bool has_clmul() { return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1"); }
bool has_vclmul() {
  return has_clmul() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
}

#else

constexpr auto* crc32_clmul = &crc32_tables;
constexpr auto* crc32_vclmul = &crc32_tables;
bool has_clmul() { return false; }
bool has_vclmul() { return false; }

#endif

using Function = std::uint32_t (*)(std::uint32_t, const std::uint8_t*, std::size_t);

Function choose() {
  if (has_vclmul()) return crc32_vclmul;
  return has_clmul() ? Function{crc32_clmul} : crc32_tables;
}

// Null until this file's initialisers ran; an earlier caller chooses for itself.
const Function chosen = choose();

}  // namespace

std::uint32_t crc32(std::uint32_t crc, const std::uint8_t* data, std::size_t length) {
  const Function function = chosen;
  return function != nullptr ? function(crc, data, length) : choose()(crc, data, length);
}

const Crc32Variant* crc32_variants() {
  static const std::array<Crc32Variant, kCrc32Variants> variants{{
      {"vpclmulqdq", has_vclmul(), crc32_vclmul},
      {"pclmulqdq", has_clmul(), crc32_clmul},
      {"tables", true, crc32_tables},
  }};
  return variants.data();
}

}  // namespace verbena::wire
