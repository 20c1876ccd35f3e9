// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/objects/memory_guard.hpp"

#include <dlfcn.h>
#include <ucontext.h>

#include <cstdint>
#include <type_traits>

#include "verbena/base/guarded.hpp"
#include "verbena/control/memory_guard.hpp"
#include "verbena/objects/mapping_watch.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {
namespace {

// Returns whether the interrupted instruction may fault, and if so makes the thread go on
// elsewhere.
bool resume(void* context) noexcept {
  auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  auto& at = machine.gregs[REG_RIP];
#elif defined(__aarch64__)
  auto& at = machine.pc;
#else
  std::uintptr_t at = 0;
  (void)machine;
#endif
  const std::uintptr_t next = guarded_resume_at(static_cast<std::uintptr_t>(at));
  if (next == 0) return false;
  at = static_cast<std::remove_reference_t<decltype(at)>>(next);
  return true;
}

constexpr control::MemoryGuard kGuard{&resume, &MappingWatch::withdraw};

}  // namespace

void guard_memory() noexcept {
  auto* const offer = reinterpret_cast<control::OfferMemoryGuard*>(
      ::dlsym(RTLD_DEFAULT, control::kOfferMemoryGuard));
  if (offer != nullptr) return offer(&kGuard);
  explain("without libverbena-preload.so a fault in registered memory ends the process");
}

}  // namespace verbena::provider
