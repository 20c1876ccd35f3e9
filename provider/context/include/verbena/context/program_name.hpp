// SPDX-License-Identifier: BSD-2-Clause
// What the program of this process is called where faults are decided: the same in each of its
// runs, another one for client and server.
#pragma once

#include <cstdint>
#include <string_view>

namespace verbena::provider {

std::uint64_t program_name_hash();

// Whether a rule that names this program is about this process: by its own name (comm), or by the
// part that it plays (VERBENA_ROLE: "server", "client").
bool is_this_program(std::string_view name);

}  // namespace verbena::provider
