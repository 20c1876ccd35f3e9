// SPDX-License-Identifier: BSD-2-Clause
// An acknowledgement that is piggybacked on the packet behind it. On a path that allows it (a
// shared ring), the ACK and the following answer are one datagram: the engine looks up the queue
// pair, takes its lock and checks the source only once. The ACK is handled first, so that a request
// is done no later than its answer arrives. Counters count it as a packet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "verbena/wire/aeth.hpp"
#include "verbena/wire/bth.hpp"
#include "verbena/wire/opcode.hpp"

namespace verbena::wire {

struct PiggybackedAck {
  static constexpr std::size_t kPacketSize = Bth::kSize + Aeth::kSize;
  static constexpr auto kOpcode = static_cast<std::uint8_t>(Opcode::kRcAcknowledge);

  Aeth aeth;
  Psn psn;

  // Returns the content of `packet` if it is an acknowledgement that can travel with `behind`
  // without loss: both go to the same queue pair, and the ACK's other fields are those of `behind`
  // or empty.
  static std::optional<PiggybackedAck> of(std::span<const std::uint8_t> packet,
                                          std::span<const std::uint8_t> behind) {
    if (packet.size() != kPacketSize || packet[0] != kOpcode) return std::nullopt;
    const BthView bth(packet.data());
    const BthView carrier(behind.data());
    const bool is_same = bth.dest_qp() == carrier.dest_qp() && bth.pkey() == carrier.pkey() &&
                         bth.migreq() == carrier.migreq();
    const bool is_plain = !bth.solicited() && bth.pad() == 0 && bth.version() == 0 &&
                          packet[4] == 0 && packet[8] == 0;
    if (!is_same || !is_plain) return std::nullopt;
    return PiggybackedAck{Aeth::read_from(packet.data() + Bth::kSize), bth.psn()};
  }

  // Writes the acknowledgement as a packet of its own. `behind` is the header that it travelled
  // with.
  void write_packet(const std::uint8_t* behind, std::uint8_t* out) const {
    const BthView carrier(behind);
    Bth{kOpcode, false, carrier.migreq(),  0,     0,  carrier.pkey(),
        false,   false, carrier.dest_qp(), false, psn}
        .write_to(out);
    aeth.write_to(out + Bth::kSize);
  }

  std::uint64_t word() const {
    return std::uint64_t{aeth.syndrome} << 56 | std::uint64_t{aeth.msn} << 32 | psn.value();
  }
  static PiggybackedAck of_word(std::uint64_t word) {
    const auto msn = static_cast<std::uint32_t>(word >> 32) & kMask24;
    return {{static_cast<std::uint8_t>(word >> 56), msn}, Psn(static_cast<std::uint32_t>(word))};
  }
  bool operator==(const PiggybackedAck&) const = default;
};

}  // namespace verbena::wire
