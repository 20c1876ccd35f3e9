// SPDX-License-Identifier: BSD-2-Clause
// A recorded packet as a network would carry it: with IP and UDP headers made from what the engine
// knows, and the right ICRC for them, so that Wireshark shows RoCEv2 whichever link carried the
// packet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "verbena/link/capture_ring.hpp"
#include "verbena/wire/ip_frame.hpp"
#include "verbena/wire/sizes.hpp"

namespace verbena::capture {

class Frame {
 public:
  // Returns where to put the packet first: `record.kept` bytes.
  std::uint8_t* room_for(const link::CaptureRecord& record);
  // Completes the datagram around the packet. Returns false if the record is no valid packet.
  bool complete(const link::CaptureRecord& record);

  std::span<const std::uint8_t> bytes() const { return {datagram_.data(), size_}; }
  std::size_t length() const { return length_; }  // before it was cut
  std::span<const std::uint8_t> packet(const link::CaptureRecord& record) const;

 private:
  std::array<std::uint8_t, wire::IpFrame::kSizeMax + wire::kMaxPacket + wire::kIcrcSize> datagram_;
  std::size_t size_ = 0;
  std::size_t length_ = 0;
};

}  // namespace verbena::capture
