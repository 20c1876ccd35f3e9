// SPDX-License-Identifier: BSD-2-Clause
// The interface by which the preload library tells the plugin which threads of the process wait in
// rdma_destroy_id. The plugin finds it by name. librdmacm waits there, in the memory of the ID,
// until the program has acknowledged all events of the ID.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::control {

// Writes for each such thread how many events of its ID were read, at most `room` numbers. Returns
// how many it has written. Reads a file of /proc for each thread that has destroyed an ID lately.
using FindWaitingDestroys = std::size_t(std::uint32_t* events, std::size_t room);
inline constexpr const char* kFindWaitingDestroys = "verbena_find_waiting_destroys";

}  // namespace verbena::control
