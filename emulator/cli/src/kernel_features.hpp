// SPDX-License-Identifier: BSD-2-Clause
// Tries out what the data path needs of the kernel, on sockets of its own. Leaves nothing behind.
#pragma once

#include <cstdint>

namespace verbena::cli {

bool can_steer_by_filter();  // SO_ATTACH_REUSEPORT_CBPF
bool can_segment_udp();      // UDP_SEGMENT
bool can_coalesce_udp();     // UDP_GRO
bool can_watch_processes();  // pidfd_open
// Returns the largest receive buffer that a socket of this user may ask for; 0 if unknown.
std::uint64_t receive_buffer_max();

}  // namespace verbena::cli
