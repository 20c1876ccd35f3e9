// SPDX-License-Identifier: BSD-2-Clause
// The moves under guarded_copy.hpp, for x86-64: each instruction has a row in the table
// (guarded.hpp). They return false after a fault. Only guarded_copy.hpp and wire's CRC use them.
#pragma once

#include <cpuid.h>

#include <cstddef>
#include <cstdint>

#include "verbena/base/guarded.hpp"

namespace verbena::guarded_moves {

// `code` reads %[to], %[from] and %[length] and does not change them.
#define VERBENA_GUARDED_MOVE(code, ...)                           \
  asm goto(VERBENA_GUARDED(code)                                  \
           :                                                      \
           : [to] "r"(to), [from] "r"(from), [length] "r"(length) \
           : __VA_ARGS__, "memory"                                \
           : fault);                                              \
  return true;                                                    \
  fault:                                                          \
  return false

inline bool one_byte(void* to, const void* from) noexcept {
  asm goto(VERBENA_GUARDED("movb (%[from]), %%al; movb %%al, (%[to])")
           :
           : [to] "r"(to), [from] "r"(from)
           : "rax", "memory"
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
      "movw (%[from]), %%ax; movw -2(%[from],%[length]), %%dx;"
      "movw %%ax, (%[to]); movw %%dx, -2(%[to],%[length])",
      "rax", "rdx");
}
template <>
inline bool both_ends<4>(void* to, const void* from, std::size_t length) noexcept {
  VERBENA_GUARDED_MOVE(
      "movl (%[from]), %%eax; movl -4(%[from],%[length]), %%edx;"
      "movl %%eax, (%[to]); movl %%edx, -4(%[to],%[length])",
      "rax", "rdx");
}
template <>
inline bool both_ends<8>(void* to, const void* from, std::size_t length) noexcept {
  VERBENA_GUARDED_MOVE(
      "movq (%[from]), %%rax; movq -8(%[from],%[length]), %%rdx;"
      "movq %%rax, (%[to]); movq %%rdx, -8(%[to],%[length])",
      "rax", "rdx");
}
template <>
inline bool both_ends<16>(void* to, const void* from, std::size_t length) noexcept {
  VERBENA_GUARDED_MOVE(
      "movups (%[from]), %%xmm0; movups -16(%[from],%[length]), %%xmm1;"
      "movups %%xmm0, (%[to]); movups %%xmm1, -16(%[to],%[length])",
      "xmm0", "xmm1");
}
template <>
inline bool both_ends<32>(void* to, const void* from, std::size_t length) noexcept {
  VERBENA_GUARDED_MOVE(
      "movups (%[from]), %%xmm0; movups 16(%[from]), %%xmm1;"
      "movups -32(%[from],%[length]), %%xmm2; movups -16(%[from],%[length]), %%xmm3;"
      "movups %%xmm0, (%[to]); movups %%xmm1, 16(%[to]);"
      "movups %%xmm2, -32(%[to],%[length]); movups %%xmm3, -16(%[to],%[length])",
      "xmm0", "xmm1", "xmm2", "xmm3");
}

// Copies 64 bytes or more, 64 at a time. The last 64 are read first and written last, over bytes
// that the loop may have copied already.
inline bool by_vectors(void* to, const void* from, std::size_t length) noexcept {
  VERBENA_GUARDED_MOVE(
      "movups -64(%[from],%[length]), %%xmm4; movups -48(%[from],%[length]), %%xmm5;"
      "movups -32(%[from],%[length]), %%xmm6; movups -16(%[from],%[length]), %%xmm7;"
      "movq %[to], %%rdi; movq %[from], %%rsi; leaq -64(%[to],%[length]), %%rcx;"
      "773: movups (%%rsi), %%xmm0; movups 16(%%rsi), %%xmm1;"
      "movups 32(%%rsi), %%xmm2; movups 48(%%rsi), %%xmm3;"
      "movups %%xmm0, (%%rdi); movups %%xmm1, 16(%%rdi);"
      "movups %%xmm2, 32(%%rdi); movups %%xmm3, 48(%%rdi);"
      "addq $64, %%rsi; addq $64, %%rdi; cmpq %%rcx, %%rdi; jb 773b;"
      "movups %%xmm4, (%%rcx); movups %%xmm5, 16(%%rcx);"
      "movups %%xmm6, 32(%%rcx); movups %%xmm7, 48(%%rcx)",
      "rcx", "rsi", "rdi", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "cc");
}

// Says whether `rep movsb` is as fast as any loop ("fast short REP MOV"). An emulated processor
// that copies byte by byte does not report this feature.
inline bool copies_strings_fast() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kFastShortRepMov = 1u << 4;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kFastShortRepMov) != 0;
}
inline bool by_string(void* to, const void* from, std::size_t length) noexcept {
  VERBENA_GUARDED_MOVE("movq %[to], %%rdi; movq %[from], %%rsi; movq %[length], %%rcx; rep movsb",
                       "rcx", "rsi", "rdi");
}

// Reads a word. If that faults, the result is undefined and `failed` is 1. The caller must be in no
// section group (VERBENA_GUARDED_VALUE).
inline __attribute__((always_inline)) std::uint64_t load(const void* at,
                                                         std::uint32_t& failed) noexcept {
  std::uint64_t word;
  asm volatile(VERBENA_GUARDED_VALUE("movq %[at], %[word]")
               : [word] "=r"(word), [failed] "+r"(failed)
               : [at] "m"(*static_cast<const std::uint64_t*>(at)));
  return word;
}

// Stores are atomic and come after all earlier stores. `to` is aligned.
inline bool store(std::uint64_t* to, std::uint64_t word) noexcept {
  asm goto(VERBENA_GUARDED("movq %[word], (%[to])")
           :
           : [to] "r"(to), [word] "r"(word)
           : "memory"
           : fault);
  return true;
fault:
  return false;
}
inline bool store(std::uint32_t* to, std::uint32_t word) noexcept {
  asm goto(VERBENA_GUARDED("movl %k[word], (%[to])")
           :
           : [to] "r"(to), [word] "r"(word)
           : "memory"
           : fault);
  return true;
fault:
  return false;
}
inline bool store(std::uint16_t* to, std::uint16_t word) noexcept {
  asm goto(VERBENA_GUARDED("movw %w[word], (%[to])")
           :
           : [to] "r"(to), [word] "r"(word)
           : "memory"
           : fault);
  return true;
fault:
  return false;
}
inline bool store(std::uint8_t* to, std::uint8_t word) noexcept {
  asm goto(VERBENA_GUARDED("movb %b[word], (%[to])")
           :
           : [to] "r"(to), [word] "q"(word)
           : "memory"
           : fault);
  return true;
fault:
  return false;
}

inline bool compare_swap(std::uint64_t* word, std::uint64_t compare, std::uint64_t swap,
                         std::uint64_t* original) noexcept {
  asm goto("movq %[compare], %%rax\n" VERBENA_GUARDED(
               "lock cmpxchgq %[swap], (%[word])") "movq %%rax, (%[original])\n"
           :
           : [word] "r"(word), [compare] "r"(compare), [swap] "r"(swap), [original] "r"(original)
           : "rax", "cc", "memory"
           : fault);
  return true;
fault:
  return false;
}
inline bool fetch_add(std::uint64_t* word, std::uint64_t add, std::uint64_t* original) noexcept {
  asm goto("movq %[add], %%rax\n" VERBENA_GUARDED(
               "lock xaddq %%rax, (%[word])") "movq %%rax, (%[original])\n"
           :
           : [word] "r"(word), [add] "r"(add), [original] "r"(original)
           : "rax", "cc", "memory"
           : fault);
  return true;
fault:
  return false;
}

#undef VERBENA_GUARDED_MOVE

}  // namespace verbena::guarded_moves
