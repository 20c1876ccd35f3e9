// SPDX-License-Identifier: BSD-2-Clause
// How rdma_cm uses the InfiniBand CM (IBTA Vol 1, Annex A11): the service ID consists of a port
// space and a port, and 36 bytes in front of the user's private data carry the IP addresses. Pure
// functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "verbena/base/address.hpp"
#include "verbena/cm/field.hpp"

namespace verbena::cm {

// The numbers are those of the user ABI and at the same time bytes 4 and 5 of the service ID.
enum class PortSpace : std::uint16_t {
  kIpoib = 0x0002,
  kTcp = 0x0106,
  kUdp = 0x0111,
  kIb = 0x013f
};

constexpr std::uint64_t service_id_of(PortSpace space, std::uint16_t port) {
  return std::uint64_t{static_cast<std::uint16_t>(space)} << 16 | port;
}

struct ServiceName {
  PortSpace space;
  std::uint16_t port;
};
// Returns nothing for a service ID that names no IP service.
std::optional<ServiceName> service_name_of(std::uint64_t service_id);

struct IpHeader {
  static constexpr std::size_t kSize = 36;

  std::uint8_t version = 0;
  std::uint8_t ip_version = 4;
  std::uint16_t source_port = 0;
  IpAddress source;
  IpAddress destination;
  bool operator==(const IpHeader&) const = default;

  // 0 version:8 IP version:4 -:4 source port:16    4 source address    20 destination address
  // An IPv4 address stands in the last four of its sixteen bytes; the others are zero.
  static std::optional<IpHeader> parse(std::span<const std::uint8_t> private_data);
  void write_to(std::span<std::uint8_t> private_data) const;
};

}  // namespace verbena::cm
