// SPDX-License-Identifier: BSD-2-Clause
// A READ asks for its data in chunks, whose ends lie at fixed places, so that a repeated request
// ends where the lost one did. The chunks are as long as the path allows; but while faults are
// injected they are short and equal on all usual paths, because each request is a packet that
// rules name and count.
#pragma once

#include <algorithm>
#include <cstdint>

#include "verbena/requester/send_queue.hpp"
#include "verbena/requester/window.hpp"

namespace verbena::requester {

// A third of what a socket with Linux's default buffer holds has more bytes, for each MTU.
inline constexpr std::uint32_t kInspectedChunkBytes = 16 * 1024;

// Returns how many packets a chunk of this READ has.
inline std::uint32_t chunk_of(const SendEntry& entry, std::uint32_t mtu, const Window& window) {
  const std::uint32_t most = window.chunk();
  return entry.inspected ? std::min(most, kInspectedChunkBytes / mtu) : most;
}

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
