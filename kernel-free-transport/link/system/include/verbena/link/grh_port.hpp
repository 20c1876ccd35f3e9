// SPDX-License-Identifier: BSD-2-Clause
// One bit beside each packet: whether its sender asked for a global route. On InfiniBand the
// receiver of a UD message sees whether there is a GRH, but in RoCEv2 there is always an IP header.
// So a port with InfiniBand persona says it by the parity of the UDP source port: even, a GRH; odd,
// none. Only this file knows the rule. On a RoCE port there is always a GRH.
#pragma once

#include <cstdint>

namespace verbena::link {

constexpr bool source_port_says_grh(std::uint16_t port) { return port % 2 == 0; }

}  // namespace verbena::link
