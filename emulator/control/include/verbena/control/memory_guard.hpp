// SPDX-License-Identifier: BSD-2-Clause
// What else the preload library offers to the plugin, which finds it by name: it stands in front of
// the calls by which a program sets what becomes of SIGSEGV and SIGBUS, and by which it unmaps
// memory. So the plugin hears of both first, and the program finds everything as it has set it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::control {

// The plugin's functions; both are called on any thread, with any lock held, in signal handlers
// too, and keep errno.
struct MemoryGuard {
  // Of a signal that the kernel raised for an instruction: whether it was ours and may fault. The
  // context (a ucontext_t) says where the thread goes on then.
  bool (*resume)(void* context) noexcept;
  // So many bytes are not what they were any more: `by` this call (in words that last) they were
  // unmapped, or are about to be, or mapped anew.
  void (*withdraw)(std::uintptr_t address, std::size_t length, const char* by) noexcept;
};

// From now on, in this process. One plugin is loaded into a process.
using OfferMemoryGuard = void(const MemoryGuard* guard);
inline constexpr const char* kOfferMemoryGuard = "verbena_offer_memory_guard";

// A thread that blocks one of the two signals would end the process by a fault that is ours: from
// now on it only seems to block them. False: no guard was offered yet.
using GuardThread = bool();
inline constexpr const char* kGuardThread = "verbena_guard_thread";

}  // namespace verbena::control
