// Where a coalesced buffer divides into packets. The kernel says so when it is asked, which makes
// reading a small packet a fifth dearer; and of what was sent as one datagram (udp_constants.hpp) it
// knows nothing. But whoever sends to us mostly sends as it has sent before, and the checksum of the
// first packet tells whether it did: after some buffers that divided as expected nobody is asked any
// more, until one does not.
//
// That one is divided by trial, so nothing is lost for not having asked, but for what is damaged: of
// a buffer whose first packet is, all. Part of the receiving half of a UdpLink; one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "verbena/wire/icrc.hpp"

namespace verbena::link {

class Division {
 public:
  using Bytes = std::span<const std::uint8_t>;
  // Of one sender: how its last buffer divided that began with a packet of this kind (the lower bits
  // of its opcode).
  using Steps = std::array<std::uint16_t, 32>;

  bool must_ask() const noexcept { return to_ask_ != 0; }
  // The kernel was asked: packets of `step` bytes, the last one shorter. `is_plain`: the first one
  // had the checksum and the IP identification that it was to have.
  void was_told(Bytes buffer, std::size_t step, bool is_plain, Steps& steps) noexcept;

  struct Found {
    std::size_t step;
    bool is_checked;  // the first packet's checksum, with IP identification 0
  };
  // It was not, or does not know. Packets may have so many IP identifications (UdpOptions).
  Found find(const wire::IcrcFlow& flow, Bytes buffer, std::uint32_t ids_accepted,
             Steps& steps) noexcept;

 private:
  static constexpr std::uint32_t kUntilSure = 64;
  static constexpr std::uint32_t kUntilSureMax = 1u << 16;

  std::uint32_t to_ask_ = kUntilSure;
  std::uint32_t until_sure_ = kUntilSure;  // the next time; twice as many each time
  std::uint32_t as_expected_ = 0;          // in a row, unasked
};

}  // namespace verbena::link
