// Socket options that are younger than some C libraries' headers, and what both halves of the UDP
// link agree on.
#pragma once

#include <netinet/udp.h>

#include <cstddef>

#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef SOL_UDP
#define SOL_UDP 17
#endif

namespace verbena::link {

// A datagram that only wakes its receiver: as far as the destination QPN, for the steering.
inline constexpr std::size_t kKickBytes = 8;

}  // namespace verbena::link
