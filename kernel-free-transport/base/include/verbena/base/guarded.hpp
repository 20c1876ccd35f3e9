// SPDX-License-Identifier: BSD-2-Clause
// Instructions that touch memory whose owner may take it away at any moment: an application's
// buffers, which it may unmap, protect, or cut off with a file's end, though it has registered
// them.
//
// Each such piece of code has a row in a table: where it begins and ends, and where to go on if it
// faults. Whoever owns the process's signals asks `guarded_resume_at` about the instruction at
// which a SIGSEGV or SIGBUS came, and lets the thread go on there: the function returns false then.
// So nothing is set up before, and nothing looked at after, an access that does not fault. Where
// nobody asks (a simulation), a fault ends the process as ever.
//
// Where a sanitizer looks at each access, or the processor is another one, the code is plain, and
// has no rows.
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

// A row for what stands between the local labels 771 and 772; `target` is where to go on. Rows of a
// function that the linker drops go with it ('?').
#define VERBENA_GUARDED_ROW(target)       \
  ".pushsection verbena_guarded,\"a?\"\n" \
  ".balign 4\n"                           \
  ".long 771b - .\n"                      \
  ".long 772b - .\n"                      \
  ".long " target                         \
  " - .\n"                                \
  ".popsection\n"
// For an asm goto with a label `fault`, and without outputs.
#define VERBENA_GUARDED(code) "771:\n" code "\n772:\n" VERBENA_GUARDED_ROW("%l[fault]")
// For a piece of code that yields something, in a function that is in no group: after a fault the
// thread goes on behind it, with whatever is there, and %[failed], a register of 32 bits, is 1.
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

// Where a thread goes on that has faulted at this instruction; 0: it touched nothing in a guarded
// way, and the fault is somebody else's. For signal handlers.
std::uintptr_t guarded_resume_at(std::uintptr_t instruction) noexcept;

}  // namespace verbena
