// SPDX-License-Identifier: BSD-2-Clause
// Socket options that are younger than some C libraries' headers.
#pragma once

#include <netinet/udp.h>
#include <sys/socket.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
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

// These come from linux/in6.h, which cannot be included beside netinet/in.h.
inline constexpr int kIpv6FlowInfo = 11;
inline constexpr int kIpv6AutoFlowLabel = 70;

}  // namespace verbena::link
