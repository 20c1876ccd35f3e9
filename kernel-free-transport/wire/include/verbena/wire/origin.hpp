// SPDX-License-Identifier: BSD-2-Clause
// Names the sender of a packet by numbers that are equal in every run of a program. Queue pair
// numbers and initial PSNs differ: programs and the emulator draw them at random.
#pragma once

#include <cstdint>

#include "verbena/base/types.hpp"

namespace verbena::wire {

struct Origin {
  std::uint32_t created = 0;  // the queue pair is its process's n-th, from 1 on
  std::uint32_t lives = 0;    // how many times it has changed from INIT to RTR
  Psn first_request;          // the PSN of its first request
  Psn first_response;         // the PSN of the first request it answers
  std::uint32_t mtu = 0;      // the path MTU in bytes
  bool operator==(const Origin&) const = default;
};

}  // namespace verbena::wire
