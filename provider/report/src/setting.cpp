// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/report/setting.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "verbena/control/setting.hpp"

namespace verbena::provider {

const char* setting(const char* name) noexcept {
  static auto* const remembered =
      reinterpret_cast<control::Setting*>(::dlsym(RTLD_DEFAULT, control::kSetting));
  return remembered != nullptr ? remembered(name) : ::secure_getenv(name);
}

}  // namespace verbena::provider
