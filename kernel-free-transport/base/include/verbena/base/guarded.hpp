// SPDX-License-Identifier: BSD-2-Clause
// Instructions that touch memory whose owner may take it away at any moment: an application can
// register a buffer and then unmap it, protect it, or truncate the file behind it.
// Each such piece of code has a row in a table: where it begins, where it ends, and where to
// continue after a fault. The process's signal handler passes the address of an instruction that
// raised SIGSEGV or SIGBUS to `guarded_resume_at` and lets the thread continue at the result; the
// function then returns false. An access that does not fault needs no preparation and no check.
// Without such a handler (in a simulation) a fault ends the process as usual.
//
// Under a sanitizer that checks each access, and on other processors, the code is plain and has no
// rows.
#pragma once

#include <cstdint>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define VERBENA_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VERBENA_SANITIZED 1
#endif

#if !defined(VERBENA_SANITIZED) && defined(__LP64__) && \
    (defined(__x86_64__) || defined(__aarch64__))
#define VERBENA_GUARDS 1

// A row for the code between the local labels 771 and 772; `target` is where to continue. The '?'
// puts the row into its function's section group, so that the linker drops both together.
#define VERBENA_GUARDED_ROW(target)       \
  ".pushsection verbena_guarded,\"a?\"\n" \
  ".balign 4\n"                           \
  ".long 771b - .\n"                      \
  ".long 772b - .\n"                      \
  ".long " target                         \
  " - .\n"                                \
  ".popsection\n"
// For an asm goto that has a label `fault` and no outputs.
#define VERBENA_GUARDED(code) "771:\n" code "\n772:\n" VERBENA_GUARDED_ROW("%l[fault]")
// For code with an output, in a function that is in no section group. After a fault the thread
// continues behind the code: the output is undefined, and %[failed], a 32-bit register, is 1.
#if defined(__x86_64__)
#define VERBENA_GUARDED_FAIL "movl $1, %k[failed]\njmp 772b\n"
#else
#define VERBENA_GUARDED_FAIL "mov %w[failed], #1\nb 772b\n"
#endif
#define VERBENA_GUARDED_VALUE(code)                                        \
  "771:\n" code                                                            \
  "\n772:\n"                                                               \
  ".pushsection .text.verbena_guarded,\"ax\"\n773:\n" VERBENA_GUARDED_FAIL \
  ".popsection\n" VERBENA_GUARDED_ROW("773b")
#endif

namespace verbena {

// Returns where a thread continues that has faulted at this instruction; 0 if no row covers it, so
// that the fault is not ours. Signal handlers may call it.
std::uintptr_t guarded_resume_at(std::uintptr_t instruction) noexcept;

}  // namespace verbena
