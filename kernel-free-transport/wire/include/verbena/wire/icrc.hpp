// SPDX-License-Identifier: BSD-2-Clause
// The invariant CRC of RoCEv2 (IBTA Vol 1, annex A17): a CRC-32 of everything that no router
// changes, stored little-endian behind the pad. It covers eight bytes of ones (where InfiniBand has
// its LRH), the IP header, the UDP header and the packet. Ones stand in for the traffic class, hop
// limit, flow label, both checksums and the BTH's byte of congestion bits.
//
// An `IcrcFlow` is one direction between two sockets. It is a value of a few bytes, computed once
// from addresses and ports and never changed, so threads may share it. Because a CRC is linear,
// tables add the packet length and the IP identification.
//
// The sender must know the IPv4 identification (0 from an unconnected socket with path MTU probing;
// 0, 1, 2 ... for the segments of one GSO send). A receiver on a UDP socket never sees it; verify()
// finds the only identification that fits the ICRC, if there is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "verbena/base/address.hpp"
#include "verbena/wire/crc32.hpp"
#include "verbena/wire/datagram.hpp"

namespace verbena::wire {

class IcrcFlow {
 public:
  using Bytes = std::span<const std::uint8_t>;

  IcrcFlow() = default;
  // The two addresses must be of one family. Ports are in host order.
  IcrcFlow(const IpAddress& source, const IpAddress& destination, std::uint16_t source_port,
           std::uint16_t destination_port = kRoceUdpPort);

  // The flow's ICRC for packets of one size (ICRC included), computed once for several packets.
  class Sized {
   public:
    std::uint32_t compute(Bytes packet, std::uint16_t ip_id) const;
    // Writes the ICRC into the last kIcrcSize bytes of `packet_with_room`. If `summed` is not 0,
    // the packet's last `summed` bytes (a length that crc32_join takes) have the CRC-32 `sum`.
    void seal(std::span<std::uint8_t> packet_with_room, std::uint16_t ip_id, std::size_t summed = 0,
              std::uint32_t sum = 0) const;
    std::optional<std::uint16_t> verify(Bytes packet_with_icrc, std::uint16_t expected_id,
                                        std::uint32_t ids_accepted) const;
    std::size_t size() const { return size_; }
    // Changes to packets of another size, in `flow`.
    void be_of(const IcrcFlow& flow, std::size_t packet_with_icrc);

   private:
    friend class IcrcFlow;
    std::size_t size_ = 0;
    std::uint32_t crc_ = 0;  // over all before the packet, with identification 0
    bool v4_ = true;
  };
  Sized of_size(std::size_t packet_with_icrc) const;

  // Returns the ICRC of a packet (BTH .. pad, at least a BTH).
  std::uint32_t compute(Bytes packet, std::uint16_t ip_id = 0) const;

  // Writes the ICRC into the last kIcrcSize bytes of `packet_with_room`.
  void seal(std::span<std::uint8_t> packet_with_room, std::uint16_t ip_id = 0) const;

  // Returns the IPv4 identification for which the last kIcrcSize bytes are the ICRC of the bytes
  // before them (0 under IPv6), or nothing if the packet is too short or damaged. The expected
  // identification costs one CRC; another one costs some 50 ns more. The more identifications are
  // accepted, the more damaged packets pass: one in 2^16 if all 65536 are. A caller that knows that
  // its peer is one of ours limits them with `ids_accepted` (128: the longest GSO send).
  std::optional<std::uint16_t> verify(Bytes packet_with_icrc,
                                      std::uint32_t ids_accepted = 0x10000) const {
    return of_size(packet_with_icrc.size()).verify(packet_with_icrc, 0, ids_accepted);
  }

 private:
  std::uint32_t base_ = 0;  // over the prefix, with lengths and identification 0
  bool v4_ = true;
};

}  // namespace verbena::wire
