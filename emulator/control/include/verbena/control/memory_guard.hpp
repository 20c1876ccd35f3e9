// SPDX-License-Identifier: BSD-2-Clause
// The interface by which the preload library tells the plugin about signals and mappings; the
// plugin finds it by name. The library intercepts the calls by which a program sets what happens on
// SIGSEGV and SIGBUS and by which it unmaps memory. So the plugin hears of both first, and the
// program sees everything as it has set it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::control {

// The plugin's functions. The library calls them on any thread, with any lock held, also in signal
// handlers. Both keep errno.
struct MemoryGuard {
  // Handles a signal that the kernel raised for an instruction. Returns true if the instruction
  // belongs to the plugin and may fault; `context` (a ucontext_t) then says where the thread
  // continues.
  bool (*resume)(void* context) noexcept;
  // Says that these bytes are no longer what they were. The call named `by` (text that stays valid)
  // has unmapped them, is about to, or has mapped them anew.
  void (*withdraw)(std::uintptr_t address, std::size_t length, const char* by) noexcept;
};

// Installs the guard in this process, which loads only one plugin.
using OfferMemoryGuard = void(const MemoryGuard* guard);
inline constexpr const char* kOfferMemoryGuard = "verbena_offer_memory_guard";

// Unblocks the two signals for the calling thread, which from then on only seems to block them:
// with a signal blocked, a fault of the plugin's would end the process. Returns false if no guard
// was offered yet.
using GuardThread = bool();
inline constexpr const char* kGuardThread = "verbena_guard_thread";

}  // namespace verbena::control
