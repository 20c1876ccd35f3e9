// SPDX-License-Identifier: BSD-2-Clause
// Who sends a packet, called by what is the same in every run of a program. Queue pair numbers and
// initial PSNs are not: programs and the emulator draw them at random.
#pragma once

#include <cstdint>

#include "verbena/base/types.hpp"

namespace verbena::wire {

struct Origin {
  std::uint32_t created = 0;  // the queue pair's place among those of its process, from 1 on
  std::uint32_t lives = 0;    // how many times it has left INIT for RTR
  Psn first_request;          // the PSN of its first request
  Psn first_response;         // the PSN of the first request that it answers
  bool operator==(const Origin&) const = default;
};

}  // namespace verbena::wire
