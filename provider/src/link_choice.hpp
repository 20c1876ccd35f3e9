// What VERBENA_LINK says about how packets travel between contexts of one emulator: `udp`, always;
// `shm`, in shared rings, with a complaint where there can be none; `auto`, in shared rings where
// there can be one (the default). And what VERBENA_DIRECT says about large payloads between
// processes that may read each other: `off`, through the ring; `on`, straight from memory to memory;
// `auto`, as it is faster (the default). Both are read when a context is opened; what is no choice
// costs one line on standard error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "verbena/base/address.hpp"

namespace verbena::provider {

enum class LinkChoice : std::uint8_t { kUdp, kSharedMemory, kAuto };

enum class DirectUse : std::uint8_t { kNever, kAlways, kWhereFaster };

inline constexpr LinkChoice kDefaultLink = LinkChoice::kAuto;

// Of the environment.
LinkChoice link_choice();
DirectUse direct_use();
// Why UDP carries the packets to this peer, for those who would like to know.
void tell_of_udp(LinkChoice choice, const IpAddress& peer, const std::string& reason);

}  // namespace verbena::provider
