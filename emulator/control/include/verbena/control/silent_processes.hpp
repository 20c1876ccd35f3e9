// SPDX-License-Identifier: BSD-2-Clause
// Processes that have not yet done what the daemon told them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "verbena/control/message.hpp"

namespace verbena::control {

struct SilentProcess {
  std::uint32_t pid = 0;
  std::string comm;
  bool operator==(const SilentProcess&) const = default;
  VERBENA_FIELDS { a(m.pid, m.comm); }
};

struct SilentProcesses {
  static constexpr std::size_t kNamedMost = 8;
  std::uint32_t count = 0;
  std::vector<SilentProcess> named;  // the first of them, at most kNamedMost
  bool operator==(const SilentProcesses&) const = default;
  VERBENA_FIELDS { a(m.count, m.named); }
};

// Returns "4711 (server), 4712 (client), ...".
inline std::string names_of(const SilentProcesses& silent) {
  std::string names;
  for (const SilentProcess& process : silent.named) {
    names += (names.empty() ? "" : ", ") + std::to_string(process.pid) + " (" + process.comm + ")";
  }
  return silent.count > silent.named.size() ? names + ", ..." : names;
}

}  // namespace verbena::control
