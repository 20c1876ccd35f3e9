// SPDX-License-Identifier: BSD-2-Clause
// Why a connection does not come about, in words, where explanations are wanted
// (paths/discovery.hpp). Any thread.
#pragma once

#include <cstdint>
#include <span>

namespace verbena::preload {

// An event that the program gets: REJECTED, UNREACHABLE and ADDR_ERROR are explained.
void explain_cm_event(std::uint64_t channel, std::span<const std::uint8_t> event);

// A command that was refused with this errno.
void explain_cm_refusal(std::span<const std::uint8_t> command, int code);

}  // namespace verbena::preload
