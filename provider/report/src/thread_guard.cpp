// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/report/thread_guard.hpp"

#include <dlfcn.h>

#include "verbena/control/memory_guard.hpp"

namespace verbena::provider {

bool guard_this_thread() noexcept {
  static auto* const guard =
      reinterpret_cast<control::GuardThread*>(::dlsym(RTLD_DEFAULT, control::kGuardThread));
  return guard == nullptr || guard();
}

}  // namespace verbena::provider
