// SPDX-License-Identifier: BSD-2-Clause
// What VERBENA_LINK says about how packets travel between contexts of one emulator: `udp`, always;
// `shm`, in shared rings, with a complaint where there can be none; `auto`, in shared rings where
// there can be one (the default). Read when a context is opened; what is no choice costs one line
// on standard error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "verbena/base/address.hpp"

namespace verbena::provider {

enum class LinkChoice : std::uint8_t { kUdp, kSharedMemory, kAuto };

inline constexpr LinkChoice kDefaultLink = LinkChoice::kAuto;

// Of the environment.
LinkChoice link_choice();
// Why UDP carries the packets to this peer: a complaint where the user wants rings only; otherwise
// it is worth an explanation if the peer is a context of the same emulator.
void tell_of_udp(LinkChoice choice, const IpAddress& peer, bool peer_is_here,
                 const std::string& reason);

}  // namespace verbena::provider
