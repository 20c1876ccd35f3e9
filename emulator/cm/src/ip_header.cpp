// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm/ip_header.hpp"

#include "verbena/base/check.hpp"

namespace verbena::cm {
namespace {

constexpr Field kVersion{"version", 0, 0, 8};
constexpr Field kIpVersion{"ip_version", 1, 0, 4};
constexpr Field kSourcePort{"source_port", 2, 0, 16};
constexpr std::size_t kSourceAt = 4;
constexpr std::size_t kDestinationAt = 20;
constexpr std::size_t kV4At = 12;  // place of an IPv4 address within the 16 bytes

IpAddress read_address(std::span<const std::uint8_t> at, bool v4) {
  if (v4) {
    return IpAddress::v4(
        static_cast<std::uint32_t>(read_bits(at, Field{"v4", std::uint16_t{kV4At}, 0, 32})));
  }
  IpAddress address;
  std::copy_n(at.begin(), 16, address.bytes.begin());
  return address;
}

void write_address(std::span<std::uint8_t> at, const IpAddress& address, bool v4) {
  std::fill_n(at.begin(), 16, std::uint8_t{0});
  const std::size_t from = v4 ? kV4At : 0;
  std::copy(address.bytes.begin() + static_cast<std::ptrdiff_t>(from), address.bytes.end(),
            at.begin() + static_cast<std::ptrdiff_t>(from));
}

}  // namespace

std::optional<ServiceName> service_name_of(std::uint64_t service_id) {
  if (service_id >> 32 != 0) return std::nullopt;
  const auto space = static_cast<PortSpace>(service_id >> 16);
  switch (space) {
    case PortSpace::kIpoib:
    case PortSpace::kTcp:
    case PortSpace::kUdp:
    case PortSpace::kIb:
      return ServiceName{space, static_cast<std::uint16_t>(service_id)};
  }
  return std::nullopt;
}

std::optional<IpHeader> IpHeader::parse(std::span<const std::uint8_t> private_data) {
  if (private_data.size() < kSize) return std::nullopt;
  IpHeader header;
  header.version = static_cast<std::uint8_t>(read_bits(private_data, kVersion));
  header.ip_version = static_cast<std::uint8_t>(read_bits(private_data, kIpVersion));
  if (header.version != 0 || (header.ip_version != 4 && header.ip_version != 6)) {
    return std::nullopt;
  }
  header.source_port = static_cast<std::uint16_t>(read_bits(private_data, kSourcePort));
  const bool v4 = header.ip_version == 4;
  header.source = read_address(private_data.subspan(kSourceAt), v4);
  header.destination = read_address(private_data.subspan(kDestinationAt), v4);
  return header;
}

void IpHeader::write_to(std::span<std::uint8_t> private_data) const {
  VERBENA_CHECK(private_data.size() >= kSize);
  std::fill_n(private_data.begin(), kSize, std::uint8_t{0});
  write_bits(private_data, kVersion, version);
  write_bits(private_data, kIpVersion, ip_version);
  write_bits(private_data, kSourcePort, source_port);
  write_address(private_data.subspan(kSourceAt), source, ip_version == 4);
  write_address(private_data.subspan(kDestinationAt), destination, ip_version == 4);
}

}  // namespace verbena::cm
