// SPDX-License-Identifier: BSD-2-Clause
// A READ asks for its data in chunks, whose ends lie at fixed places, so that a repeated request
// ends where the lost one did.
#pragma once

#include <algorithm>
#include <cstdint>

#include "verbena/requester/send_queue.hpp"

namespace verbena::requester {

// Returns for how many PSNs a request packet stands that asks for data from PSN `from` on.
inline std::uint32_t psns_asked_for(const SendEntry& entry, Psn from, std::uint32_t chunk) {
  if (entry.opcode != queue::WorkOpcode::kRead) return 1;
  const std::uint32_t offset = static_cast<std::uint32_t>(from.distance_from(entry.first));
  return std::min(chunk - offset % chunk, entry.packets - offset);
}

// Returns how many request packets have their last answer among the `psns` packets from `from` on.
inline std::uint32_t chunks_ended(const SendEntry& entry, Psn from, std::uint32_t psns,
                                  std::uint32_t chunk) {
  const std::uint32_t begin = static_cast<std::uint32_t>(from.distance_from(entry.first));
  const std::uint32_t end = begin + psns;
  const bool ends_short = end == entry.packets && end % chunk != 0;
  return end / chunk - begin / chunk + (ends_short ? 1 : 0);
}

}  // namespace verbena::requester
