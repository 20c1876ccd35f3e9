// SPDX-License-Identifier: BSD-2-Clause
// What the clients of one emulator share (limits/fair_share.hpp). Owned by main, one thread.
#pragma once

#include <cstddef>

#include "verbena/limits/fair_share.hpp"

namespace verbena::daemon {

struct Shares {
  explicit Shares(std::size_t descriptors_in_all) : descriptors(descriptors_in_all) {}

  limits::FairShare descriptors;
  // Bytes that wait for clients that do not read.
  limits::FairShare unread{64u << 20};
  // Each ring is a mapping of the daemon's, and a process may have 65,530 mappings.
  limits::FairShare rings{32768};
};

}  // namespace verbena::daemon
