// SPDX-License-Identifier: BSD-2-Clause
// The moves under guarded_copy.hpp, for AArch64: each instruction has a row in the table
// (guarded.hpp). They return false after a fault. Only guarded_copy.hpp and wire's CRC use them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbena/base/guarded.hpp"

namespace verbena::guarded_moves {

// `code` reads %[to], %[from] and %[length] and does not change them; x11 and x12 are the ends of
// `from` and `to`.
#define VERBENA_GUARDED_MOVE(code, ...)                                                      \
  asm goto("add x11, %[from], %[length]\n add x12, %[to], %[length]\n" VERBENA_GUARDED(code) \
           :                                                                                 \
           : [to] "r"(to), [from] "r"(from), [length] "r"(length)                            \
           : __VA_ARGS__, "x11", "x12", "memory"                                             \
           : fault);                                                                         \
  return true;                                                                               \
  fault:                                                                                     \
  return false

inline bool one_byte(void* to, const void* from) noexcept {
  asm goto(VERBENA_GUARDED("ldrb w9, [%[from]]\n strb w9, [%[to]]")
           :
           : [to] "r"(to), [from] "r"(from)
           : "x9", "memory"
           : fault);
  return true;
fault:
  return false;
}

// Copies `kPart` bytes at the beginning and as many at the end; it reads all of them before it
// writes. The two parts may overlap.
template <std::size_t kPart>
bool both_ends(void* to, const void* from, std::size_t length) noexcept = delete;

template <>
inline bool both_ends<2>(void* to, const void* from, std::size_t length) noexcept {
  VERBENA_GUARDED_MOVE(
      "ldrh w9, [%[from]]\n ldurh w10, [x11, #-2]\n strh w9, [%[to]]\n sturh w10, [x12, #-2]", "x9",
      "x10");
}
template <>
inline bool both_ends<4>(void* to, const void* from, std::size_t length) noexcept {
  VERBENA_GUARDED_MOVE(
      "ldr w9, [%[from]]\n ldur w10, [x11, #-4]\n str w9, [%[to]]\n stur w10, [x12, #-4]", "x9",
      "x10");
}
template <>
inline bool both_ends<8>(void* to, const void* from, std::size_t length) noexcept {
  VERBENA_GUARDED_MOVE(
      "ldr x9, [%[from]]\n ldur x10, [x11, #-8]\n str x9, [%[to]]\n stur x10, [x12, #-8]", "x9",
      "x10");
}
template <>
inline bool both_ends<16>(void* to, const void* from, std::size_t length) noexcept {
  VERBENA_GUARDED_MOVE(
      "ldr q0, [%[from]]\n ldur q1, [x11, #-16]\n str q0, [%[to]]\n stur q1, [x12, #-16]", "v0",
      "v1");
}
template <>
inline bool both_ends<32>(void* to, const void* from, std::size_t length) noexcept {
  VERBENA_GUARDED_MOVE(
      "ldp q0, q1, [%[from]]\n ldp q2, q3, [x11, #-32]\n"
      "stp q0, q1, [%[to]]\n stp q2, q3, [x12, #-32]",
      "v0", "v1", "v2", "v3");
}

// Copies 64 bytes or more, 64 at a time. The last 64 are read first and written last, over bytes
// that the loop may have copied already.
inline bool by_vectors(void* to, const void* from, std::size_t length) noexcept {
  VERBENA_GUARDED_MOVE(
      "ldp q4, q5, [x11, #-64]\n ldp q6, q7, [x11, #-32]\n"
      "mov x9, %[from]\n mov x10, %[to]\n sub x12, x12, #64\n"
      "773: ldp q0, q1, [x9]\n ldp q2, q3, [x9, #32]\n"
      "stp q0, q1, [x10]\n stp q2, q3, [x10, #32]\n"
      "add x9, x9, #64\n add x10, x10, #64\n cmp x10, x12\n b.lo 773b\n"
      "stp q4, q5, [x12]\n stp q6, q7, [x12, #32]",
      "x9", "x10", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "cc");
}

// AArch64 has no instruction that copies a string.
inline bool copies_strings_fast() noexcept { return false; }
inline bool by_string(void* to, const void* from, std::size_t length) noexcept {
  return by_vectors(to, from, length);
}

// Reads a word. If that faults, the result is undefined and `failed` is 1. The caller must be in no
// section group (VERBENA_GUARDED_VALUE).
inline __attribute__((always_inline)) std::uint64_t load(const void* at,
                                                         std::uint32_t& failed) noexcept {
  std::uint64_t word;
  asm volatile(VERBENA_GUARDED_VALUE("ldr %x[word], %[at]")
               : [word] "=r"(word), [failed] "+r"(failed)
               : [at] "m"(*static_cast<const std::uint64_t*>(at)));
  return word;
}

// Stores are atomic and come after all earlier stores. `to` is aligned.
#define VERBENA_GUARDED_STORE(code)                                                      \
  asm goto(VERBENA_GUARDED(code) : : [to] "r"(to), [word] "r"(word) : "memory" : fault); \
  return true;                                                                           \
  fault:                                                                                 \
  return false

inline bool store(std::uint64_t* to, std::uint64_t word) noexcept {
  VERBENA_GUARDED_STORE("stlr %x[word], [%[to]]");
}
inline bool store(std::uint32_t* to, std::uint32_t word) noexcept {
  VERBENA_GUARDED_STORE("stlr %w[word], [%[to]]");
}
inline bool store(std::uint16_t* to, std::uint16_t word) noexcept {
  VERBENA_GUARDED_STORE("stlrh %w[word], [%[to]]");
}
inline bool store(std::uint8_t* to, std::uint8_t word) noexcept {
  VERBENA_GUARDED_STORE("stlrb %w[word], [%[to]]");
}

inline bool compare_swap(std::uint64_t* word, std::uint64_t compare, std::uint64_t swap,
                         std::uint64_t* original) noexcept {
  asm goto(VERBENA_GUARDED("773: ldaxr x9, [%[word]]\n cmp x9, %[compare]\n b.ne 774f\n"
                           "stlxr w10, %[swap], [%[word]]\n cbnz w10, 773b\n"
                           "774: dmb ish") "str x9, [%[original]]\n"
           :
           : [word] "r"(word), [compare] "r"(compare), [swap] "r"(swap), [original] "r"(original)
           : "x9", "x10", "cc", "memory"
           : fault);
  return true;
fault:
  return false;
}
inline bool fetch_add(std::uint64_t* word, std::uint64_t add, std::uint64_t* original) noexcept {
  asm goto(VERBENA_GUARDED("773: ldaxr x9, [%[word]]\n add x11, x9, %[add]\n"
                           "stlxr w10, x11, [%[word]]\n cbnz w10, 773b\n"
                           "dmb ish") "str x9, [%[original]]\n"
           :
           : [word] "r"(word), [add] "r"(add), [original] "r"(original)
           : "x9", "x10", "x11", "memory"
           : fault);
  return true;
fault:
  return false;
}

#undef VERBENA_GUARDED_STORE
#undef VERBENA_GUARDED_MOVE

}  // namespace verbena::guarded_moves
