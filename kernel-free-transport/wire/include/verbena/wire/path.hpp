// SPDX-License-Identifier: BSD-2-Clause
// What a queue pair knows about the way to its peer: how much the peer can hold, in which forms
// packets travel, whether there is room now, how far the peer has read, and what is known about its
// process. The transmitter makes the path when the queue pair learns its peer (RTR) and again when
// the peer changes. The queue pair owns it and asks it under its lock. What carries the packets may
// change at any time: an answer is valid only at the time of the call.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "verbena/base/peer_report.hpp"
#include "verbena/base/types.hpp"
#include "verbena/wire/sizes.hpp"

namespace verbena::wire {

class Path {
 public:
  enum class Room : std::uint8_t {
    kUnknown,  // the path cannot tell
    kSome,     // enough for a batch at least
    kNone,     // until the peer reads, which it probably will
    kSoon,     // a ring may come soon; until then there is what a socket holds
  };
  // How much was given to the path, and how much of it the peer has taken, in the same unit.
  struct Reading {
    std::uint64_t given = 0;
    std::uint64_t taken = 0;
  };
  // The forms in which packets travel.
  struct Packing {
    // A batch with messages of kBundledLeast bytes or more is limited to one run
    // (TxBatch::be_one_run); a batch of shorter messages is hardly longer anyway. Below
    // kBorrowedLeast copying costs less than borrowing, on any path.
    static constexpr std::uint32_t kBundledLeast = 1024;
    static constexpr std::uint32_t kBorrowedLeast = 512;
    static constexpr std::uint32_t kNever = ~std::uint32_t{0};

    // How many bytes one merged packet may carry; 0: packets are not merged.
    std::uint32_t merged_most = 0;
    bool is_sealed = false;   // has a checksum, which is cheaper while copying
    bool is_bundled = false;  // several travel at once, whatever their lengths
    // Injected faults or a capture look at single packets, so the sender makes the same ones for
    // every path.
    bool is_inspected = false;
    // A payload of at least this length may stay in place until its batch was sent, if it is not
    // sealed: a sealed one that changed between sum and sending would be dropped.
    std::uint32_t borrowed_least = kNever;

    // Returns merged_most for a payload of `length` bytes: about half of it, so that the peer reads
    // one piece while the next is written. Pieces are not shorter than kPieceLeast, because more of
    // them only cost more.
    static constexpr std::uint32_t kPieceLeast = 8192;
    std::uint32_t merged_most_of(std::uint64_t length) const {
      const std::uint64_t half = std::bit_floor(std::min<std::uint64_t>(length / 2, kMergedMost));
      return std::min(merged_most, std::max(static_cast<std::uint32_t>(half), kPieceLeast));
    }

    // Returns how many packets of a message one packet of up to `bytes` stands for, beginning with
    // packet `index`. Pieces end at fixed places, so that a repeated piece ends where the lost one
    // did.
    static std::uint32_t psns_at(std::uint32_t index, std::uint32_t packets, std::uint64_t bytes,
                                 std::uint32_t mtu) {
      const std::uint32_t most = std::max(static_cast<std::uint32_t>(bytes) / mtu, 1u);
      return std::min(most - index % most, packets - index);
    }
  };

  virtual ~Path() = default;
  // Returns how many packets of this size the peer can hold while its process does not read.
  virtual std::uint32_t capacity_packets(std::size_t packet_bytes) noexcept = 0;
  virtual Packing packing() noexcept { return {}; }
  virtual Room room(TimeNs /*now*/) noexcept { return Room::kUnknown; }
  // Returns nothing if the path cannot tell.
  virtual std::optional<Reading> reading() noexcept { return {}; }
  // Returns how long until slow lines (injected faults) have carried what the own queue pair sent.
  virtual TimeNs wait_of_line(Qpn /*own*/, TimeNs /*now*/) noexcept { return 0; }
  // Asks what has become of the peer's process. It returns at once; report() tells the answer
  // later.
  virtual void inquire(TimeNs /*now*/) noexcept {}
  // Returns what was learnt after `since`.
  virtual PeerReport report(TimeNs /*since*/) noexcept { return {}; }
  // Says whether the peer sends everything for this queue pair through a ring: a packet in its name
  // that comes another way is forged or was overtaken. Called under the receive lock.
  virtual bool hears_by_ring(Qpn /*own*/) noexcept { return false; }
};

}  // namespace verbena::wire
