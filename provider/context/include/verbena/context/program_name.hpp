// SPDX-License-Identifier: BSD-2-Clause
// The name of this process's program where faults are decided. It is the same in each run of the
// program, and differs between client and server.
#pragma once

#include <cstdint>
#include <string_view>

namespace verbena::provider {

std::uint64_t program_name_hash();

// Returns whether a rule that names this program applies to this process: by its own name (comm),
// or by its role (VERBENA_ROLE: "server", "client").
bool is_this_program(std::string_view name);

}  // namespace verbena::provider
