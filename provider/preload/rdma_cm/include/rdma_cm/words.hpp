// SPDX-License-Identifier: BSD-2-Clause
// Explains in words why a connection fails, if explanations are wanted (paths/discovery.hpp). Any
// thread may call this.
#pragma once

#include <cstdint>
#include <span>

namespace verbena::preload {

// Explains an event that the program gets, if it is REJECTED, UNREACHABLE or ADDR_ERROR.
void explain_cm_event(std::uint64_t channel, std::span<const std::uint8_t> event);

// Explains a command that was refused with this errno.
void explain_cm_refusal(std::span<const std::uint8_t> command, int code);

}  // namespace verbena::preload
