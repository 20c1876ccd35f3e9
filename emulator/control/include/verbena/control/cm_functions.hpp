// SPDX-License-Identifier: BSD-2-Clause
// Tells which function of librdmacm a program has called, from the command that it writes to
// /dev/infiniband/rdma_cm. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace verbena::control {

// Returns an empty name if the command belongs to no function or librdmacm sends it on its own. An
// ID of RDMA_PS_IB and a bind to AF_IB count as its own, even if the program asked for them.
std::string_view function_of_cm_command(std::span<const std::uint8_t> command);

}  // namespace verbena::control
