// SPDX-License-Identifier: BSD-2-Clause
// Where a buffer out of the receiving socket divides into packets. Of what came as segments the
// kernel says so when it is asked, which makes reading a small packet a fifth dearer; of a bundle
// (udp_constants.hpp) it knows nothing. But whoever sends to us mostly sends as it has sent before,
// and the checksum tells whether a packet is as long as the last one of its kind was. So after some
// buffers for which that would have done, the kernel is not asked any more, until it would not.
//
// What is not as expected is divided by trial, so nothing is lost for not having asked, but for
// what is damaged: a packet, and what cannot be found behind it. Part of the receiving half of a
// UdpLink; one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "verbena/wire/icrc.hpp"

namespace verbena::link {

// Of one sender, by the lower bits of the opcode: how long its last packet of this kind was, with
// its ICRC.
using PacketLengths = std::array<std::uint16_t, 32>;

// Cuts the packets off one buffer.
class Cutter {
 public:
  using Bytes = std::span<const std::uint8_t>;
  // What a buffer may be, but for one packet.
  struct Origin {
    std::size_t segment_bytes = 0;  // segments, the kernel says, of this length (0: it does not)
    bool maybe_segments = false;    // it was not asked
    bool maybe_bundle = false;
  };
  struct Piece {
    Bytes bytes;
    bool is_packet;  // with a right ICRC
  };

  // Packets may have so many IP identifications (UdpOptions).
  Cutter(const wire::IcrcFlow& flow, Bytes buffer, const Origin& origin, std::uint32_t ids_accepted,
         PacketLengths& lengths) noexcept
      : flow_(flow),
        rest_(buffer),
        origin_(origin),
        ids_accepted_(ids_accepted),
        lengths_(lengths) {}

  bool is_done() const noexcept { return rest_.empty(); }
  Piece next() noexcept;
  // It was clear without the kernel's word, or the kernel has none.
  bool is_clear() const noexcept { return is_clear_; }
  // Packets whose IP identification no send of ours gives them.
  std::uint32_t foreign_ids() const noexcept { return foreign_ids_; }

 private:
  bool is_packet_of_ours(Bytes bytes) noexcept;
  std::optional<std::uint16_t> identify(Bytes bytes) noexcept;
  bool are_segments(Bytes bytes, std::size_t step, std::uint32_t ids_accepted) const noexcept;
  Piece cut(std::size_t length, bool is_packet) noexcept;
  [[gnu::noinline]] Piece cut_segment() noexcept;
  [[gnu::noinline]] Piece cut_unexpected(std::uint16_t& known) noexcept;
  std::size_t length_in_bundle() noexcept;
  std::size_t length_of_segments() const noexcept;

  wire::IcrcFlow flow_;
  wire::IcrcFlow::Sized sized_;
  Bytes rest_;
  Origin origin_;
  std::uint32_t ids_accepted_;
  PacketLengths& lengths_;
  std::uint16_t next_id_ = 0;  // that a send of ours gives
  std::uint32_t foreign_ids_ = 0;
  bool may_try_ = true;  // once: whoever sends garbage shall not cost much
  bool is_clear_ = true;
};

// Whether to ask.
class Asking {
 public:
  bool is_needed() const noexcept { return left_ != 0; }
  // What a buffer was like that was asked for, or not.
  void was(bool is_clear) noexcept;

 private:
  static constexpr std::uint32_t kUntilSure = 64;
  static constexpr std::uint32_t kUntilSureMax = 1u << 16;

  std::uint32_t left_ = kUntilSure;
  std::uint32_t until_sure_ = kUntilSure;  // the next time; twice as many each time
  std::uint32_t clear_ = 0;                // in a row, unasked
};

}  // namespace verbena::link
