// SPDX-License-Identifier: BSD-2-Clause
// What the program of this process is called where faults are decided: the same in each of its
// runs, another one for client and server.
#pragma once

#include <cstdint>

namespace verbena::provider {

std::uint64_t program_name_hash();

}  // namespace verbena::provider
