// SPDX-License-Identifier: BSD-2-Clause
// What a queue pair has of its way to its peer: how much that holds, in which forms packets travel,
// whether there is room now, how far the peer has read, what is known of its process. Made by the
// transmitter where the queue pair learns of its peer (RTR) and again where that changes; owned by
// the queue pair and asked under its lock. What carries the packets may change meanwhile: each
// answer is of now.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "verbena/base/types.hpp"
#include "verbena/wire/peer_report.hpp"
#include "verbena/wire/sizes.hpp"

namespace verbena::wire {

class Path {
 public:
  enum class Room : std::uint8_t {
    kUnknown,  // nobody can tell
    kSome,     // for a batch at least
    kNone,     // until the peer reads, which it may be expected to do
  };
  // How much the path was given, and how much of that the peer has taken off it, in whatever unit.
  struct Reading {
    std::uint64_t given = 0;
    std::uint64_t taken = 0;
  };
  // In which forms packets travel.
  struct Packing {
    // A batch of shorter messages is hardly more than one run; a shorter payload is copied sooner
    // than borrowed, on any path.
    static constexpr std::uint32_t kBundledLeast = 1024;
    static constexpr std::uint32_t kBorrowedLeast = 512;
    static constexpr std::uint32_t kNever = ~std::uint32_t{0};

    // How many bytes one merged packet may carry. As it is, none.
    std::uint32_t merged_most = 0;
    bool is_sealed = false;   // with a checksum, which is cheaper beside the copying
    bool is_bundled = false;  // several at once, whatever their lengths
    // A packet's payload that is as long may stay where it is until its batch was sent, unless it
    // is sealed: what is changed between sum and sending would be dropped.
    std::uint32_t borrowed_least = kNever;

    // Of a payload of this length: about half, so that one piece is read while the other is
    // written; but more and shorter pieces than of kPieceLeast only cost more.
    static constexpr std::uint32_t kPieceLeast = 8192;
    std::uint32_t merged_most_of(std::uint64_t length) const {
      const std::uint64_t half = std::bit_floor(std::min<std::uint64_t>(length / 2, kMergedMost));
      return std::min(merged_most, std::max(static_cast<std::uint32_t>(half), kPieceLeast));
    }

    // How many packets of a message, from this one on, one packet of up to so many bytes stands
    // for. The ends lie at fixed places, so that what is repeated ends where the lost one did.
    static std::uint32_t psns_at(std::uint32_t index, std::uint32_t packets, std::uint64_t bytes,
                                 std::uint32_t mtu) {
      const std::uint32_t most = std::max(static_cast<std::uint32_t>(bytes) / mtu, 1u);
      return std::min(most - index % most, packets - index);
    }
  };

  virtual ~Path() = default;
  // How many packets of this size the peer can hold while its owner is busy.
  virtual std::uint32_t capacity_packets(std::size_t packet_bytes) noexcept = 0;
  virtual Packing packing() noexcept { return {}; }
  virtual Room room(TimeNs /*now*/) noexcept { return Room::kUnknown; }
  // Nothing: nobody can tell.
  virtual std::optional<Reading> reading() noexcept { return {}; }
  // Has somebody who knows look what has become of the peer's process; nobody waits for it.
  virtual void inquire(TimeNs /*now*/) noexcept {}
  // What was learnt since then.
  virtual PeerReport report(TimeNs /*since*/) noexcept { return {}; }
  // Whether all that the peer sends to this queue pair comes by a ring: what comes otherwise in its
  // name is somebody else's, or was overtaken. Under the receive lock.
  virtual bool hears_by_ring(Qpn /*own*/) noexcept { return false; }
};

}  // namespace verbena::wire
