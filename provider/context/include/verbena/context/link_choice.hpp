// SPDX-License-Identifier: BSD-2-Clause
// VERBENA_LINK says how packets travel between contexts of one emulator: `udp` is always UDP; `shm`
// is shared rings, with a complaint where there can be none; `auto` (the default) is shared rings
// where there can be one. It is read when a context is opened. An unknown word costs one line on
// standard error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "verbena/base/address.hpp"

namespace verbena::provider {

enum class LinkChoice : std::uint8_t { kUdp, kSharedMemory, kAuto };

inline constexpr LinkChoice kDefaultLink = LinkChoice::kAuto;

// Reads the choice from the environment.
LinkChoice link_choice();
// Says why UDP carries the packets to this peer: a complaint if the user wants rings only.
// Otherwise it is worth an explanation if the peer is a context of the same emulator.
void tell_of_udp(LinkChoice choice, const IpAddress& peer, bool peer_is_here,
                 const std::string& reason);

}  // namespace verbena::provider
