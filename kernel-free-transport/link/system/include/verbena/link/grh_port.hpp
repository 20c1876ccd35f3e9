// SPDX-License-Identifier: BSD-2-Clause
// One bit beside each packet: whether its sender asked for a global route. An InfiniBand receiver
// of datagrams sees a GRH or does not, but RoCEv2 has an IP header always. So a port with
// InfiniBand persona says it by the parity of the UDP source port: even, a GRH; odd, none. The
// rule lives here only. On a RoCE port nobody asks: there is always a GRH.
#pragma once

#include <cstdint>

namespace verbena::link {

constexpr bool source_port_says_grh(std::uint16_t port) { return port % 2 == 0; }

}  // namespace verbena::link
