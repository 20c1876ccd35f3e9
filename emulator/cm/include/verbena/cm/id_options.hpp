// SPDX-License-Identifier: BSD-2-Clause
// What a program wants of an ID, in numbers and bytes of its own: the type of its queue pair, and
// options. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "verbena/cm/rdma_id.hpp"

namespace verbena::cm {

// That of the port space; in RDMA_PS_IB it is the program's choice. Nothing for another space or
// type.
std::optional<QpType> qp_type_in(std::uint16_t port_space, std::uint8_t chosen);

// 0 or an errno: for a value of the wrong size, in a state in which it is too late, or without
// meaning for the ID's queue pair.
int set_id_option(RdmaId& id, std::uint32_t name, std::span<const std::uint8_t> value);

// Whether these are path records (ibacm's), one of them for both directions of the primary path.
// What it says does not matter: the path is arithmetic here.
bool has_usable_path(std::span<const std::uint8_t> records);

}  // namespace verbena::cm
