// SPDX-License-Identifier: BSD-2-Clause
#include "real/settings.hpp"

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "real/export.hpp"
#include "verbena/control/setting.hpp"

namespace verbena::preload {
namespace {

constexpr const char* kDriver = "RDMAV_DRIVERS";

struct Remembered {
  const char* name;
  const char* value = nullptr;
};

// Constant once the library is loaded. The copies are never freed.
constinit std::array<Remembered, 10> remembered{{
    {kDriver},
    {"VERBENA_ENGINES"},
    {"VERBENA_FAIL"},
    {"VERBENA_LINK"},
    {"VERBENA_LOG"},
    {"VERBENA_PRELOAD_REAL_ROOT"},
    {"VERBENA_PRELOAD_TRACE"},
    {"VERBENA_ROLE"},
    {"VERBENA_RUNTIME_DIR"},
    {"XDG_RUNTIME_DIR"},
}};

}  // namespace

// secure_getenv finds nothing in a program that has more rights than its caller.
void remember_settings() {
  for (Remembered& one : remembered) {
    const char* const value = ::secure_getenv(one.name);
    one.value = value != nullptr ? ::strdup(value) : nullptr;
  }
}

const char* setting(const char* name) {
  if (const char* const now = ::secure_getenv(name)) return now;
  for (const Remembered& one : remembered) {
    if (std::strcmp(one.name, name) == 0) return one.value;
  }
  return nullptr;
}

// Other threads may read the environment, so it is changed once, and only if the variable is gone.
void restore_driver() {
  static constinit std::atomic<bool> is_done{false};
  if (is_done.exchange(true, std::memory_order_relaxed)) return;
  const char* const driver = setting(kDriver);
  if (driver != nullptr && ::getenv(kDriver) == nullptr) (void)::setenv(kDriver, driver, 1);
}

}  // namespace verbena::preload

VERBENA_EXPORT const char* verbena_setting(const char* name) {
  return verbena::preload::setting(name);
}
