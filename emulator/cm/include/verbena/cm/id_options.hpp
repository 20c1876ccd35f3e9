// SPDX-License-Identifier: BSD-2-Clause
// Checks what a program wants of an ID, in the numbers and bytes of the user ABI: the type of its
// queue pair, and options. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "verbena/cm/rdma_id.hpp"

namespace verbena::cm {

// Returns the queue pair type of the port space; in RDMA_PS_IB the program chooses it. Returns
// nothing for an unknown space or type.
std::optional<QpType> qp_type_in(std::uint16_t port_space, std::uint8_t chosen);

// Returns 0, or an errno for a value of the wrong size, a state in which it is too late, or an
// option that means nothing to the ID's queue pair.
int set_id_option(RdmaId& id, std::uint32_t name, std::span<const std::uint8_t> value);

// Returns true if these are path records (of ibacm) and one covers both directions of the primary
// path. Their content does not matter, because the path is arithmetic here.
bool has_usable_path(std::span<const std::uint8_t> records);

}  // namespace verbena::cm
