// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/wire/icrc.hpp"

#include <array>

#include "polynomial.hpp"
#include "verbena/base/check.hpp"
#include "verbena/wire/bth.hpp"
#include "verbena/wire/bytes.hpp"
#include "verbena/wire/crc32.hpp"
#include "verbena/wire/ip_frame.hpp"

namespace verbena::wire {
namespace {

constexpr std::size_t kLrhStandIn = 8;
constexpr std::size_t kIpv4Prefix = kIpv4HeaderSize + kUdpHeaderSize;
constexpr std::size_t kIpv6Prefix = kIpv6HeaderSize + kUdpHeaderSize;

// What a 16-bit field in network order adds to the register when `after` bytes of prefix follow it.
// The register is linear in the message, so one table for each byte of the field suffices.
struct FieldTable {
  std::array<std::array<std::uint32_t, 256>, 2> byte{};

  constexpr std::uint32_t of(std::uint16_t value) const {
    return byte[0][value >> 8] ^ byte[1][value & 0xff];
  }
};

constexpr FieldTable field_with(std::size_t after) {
  FieldTable table;
  const std::uint32_t first = polynomial::power_of_x(static_cast<unsigned>(8 * (after + 1)));
  const std::uint32_t second = polynomial::power_of_x(static_cast<unsigned>(8 * after));
  for (std::size_t b = 0; b < 256; ++b) {
    const std::uint32_t entered = polynomial::kByteTables[0][b];
    table.byte[0][b] = polynomial::product(entered, first);
    table.byte[1][b] = polynomial::product(entered, second);
  }
  return table;
}

constexpr std::size_t kIpv4LengthAt = 2;
constexpr std::size_t kIpv4IdAt = 4;
constexpr std::size_t kIpv6LengthAt = 4;
constexpr std::size_t kBehindUdpLength = 2;  // the checksum

constexpr FieldTable kIpv4Length = field_with(kIpv4Prefix - kIpv4LengthAt - 2);
constexpr FieldTable kIpv4Id = field_with(kIpv4Prefix - kIpv4IdAt - 2);
constexpr FieldTable kIpv6Length = field_with(kIpv6Prefix - kIpv6LengthAt - 2);
constexpr FieldTable kUdpLength = field_with(kBehindUdpLength);

// x^(-8n), which moves the register back by n bytes: one factor for n mod 256 and one for n / 256.
struct StepsBack {
  std::array<std::uint32_t, 256> ones{};
  std::array<std::uint32_t, 258> times256{};
};
constexpr StepsBack kStepsBack = [] {
  StepsBack table;
  std::uint32_t r = polynomial::kOne;
  for (std::uint32_t& entry : table.ones) {
    entry = r;
    for (int bit = 0; bit < 8; ++bit) r = polynomial::divided_by_x(r);
  }
  const std::uint32_t step = r;  // x^(-8 * 256)
  r = polynomial::kOne;
  for (std::uint32_t& entry : table.times256) {
    entry = r;
    r = polynomial::product(r, step);
  }
  return table;
}();
constexpr std::size_t kStepsBackMax = kStepsBack.ones.size() * kStepsBack.times256.size() - 1;

constexpr std::uint32_t take_back(std::uint32_t r, std::size_t bytes) {
  r = polynomial::product(r, kStepsBack.ones[bytes % 256]);
  return polynomial::product(r, kStepsBack.times256[bytes / 256]);
}

// Writes the headers of an empty datagram with identification 0, lengths 0, and ones where the ICRC
// wants ones. Returns their size.
std::size_t masked_prefix(const IpAddress& source, const IpAddress& destination,
                          std::uint16_t source_port, std::uint16_t destination_port,
                          std::uint8_t* out) {
  std::memset(out, 0xff, kLrhStandIn);
  std::uint8_t* ip = out + kLrhStandIn;
  const IpFrame frame{.source = source,
                      .destination = destination,
                      .source_port = source_port,
                      .destination_port = destination_port,
                      .traffic_class = 0xff,
                      .hop_limit = 0xff,
                      .flow_label = 0xfffff};
  frame.write_to(ip, 0);
  std::uint8_t* udp = ip + frame.size() - kUdpHeaderSize;
  store_be16(udp + 4, 0);
  store_be16(udp + 6, 0xffff);
  if (destination.is_v4()) {
    store_be16(ip + kIpv4LengthAt, 0);
    store_be16(ip + 10, 0xffff);
  } else {
    store_be16(ip + kIpv6LengthAt, 0);
  }
  return kLrhStandIn + frame.size();
}

// The BTH's byte of congestion bits, as a mask for its first eight bytes.
constexpr std::uint64_t kMaskedInBth = std::uint64_t{0xff} << 32;

}  // namespace

IcrcFlow::IcrcFlow(const IpAddress& source, const IpAddress& destination, std::uint16_t source_port,
                   std::uint16_t destination_port)
    : v4_(destination.is_v4()) {
  std::uint8_t bytes[kLrhStandIn + IpFrame::kSizeMax];
  base_ = crc32(0, bytes, masked_prefix(source, destination, source_port, destination_port, bytes));
}

IcrcFlow::Sized IcrcFlow::of_size(std::size_t packet_with_icrc) const {
  Sized sized;
  sized.be_of(*this, packet_with_icrc);
  return sized;
}

void IcrcFlow::Sized::be_of(const IcrcFlow& flow, std::size_t packet_with_icrc) {
  const auto udp_length = static_cast<std::uint16_t>(kUdpHeaderSize + packet_with_icrc);
  size_ = packet_with_icrc;
  v4_ = flow.v4_;
  crc_ = flow.base_ ^ kUdpLength.of(udp_length) ^
         (v4_ ? kIpv4Length.of(static_cast<std::uint16_t>(kIpv4HeaderSize + udp_length))
              : kIpv6Length.of(udp_length));
}

std::uint32_t IcrcFlow::Sized::compute(Bytes packet, std::uint16_t ip_id) const {
  VERBENA_CHECK(packet.size() >= Bth::kSize);
  const std::uint32_t start = v4_ && ip_id != 0 ? crc_ ^ kIpv4Id.of(ip_id) : crc_;
  return crc32(start, packet.data(), packet.size(), kMaskedInBth);
}

void IcrcFlow::Sized::seal(std::span<std::uint8_t> packet_with_room, std::uint16_t ip_id,
                           std::size_t summed, std::uint32_t sum) const {
  VERBENA_CHECK(packet_with_room.size() == size_ && size_ >= Bth::kSize + summed + kIcrcSize);
  const std::uint32_t head = compute(packet_with_room.first(size_ - kIcrcSize - summed), ip_id);
  store_le32(packet_with_room.last(kIcrcSize).data(),
             summed == 0 ? head : crc32_join(head, sum, summed));
}

std::optional<std::uint16_t> IcrcFlow::Sized::verify(Bytes packet_with_icrc,
                                                     std::uint16_t expected_id,
                                                     std::uint32_t ids_accepted) const {
  if (size_ < Bth::kSize + kIcrcSize) return std::nullopt;
  VERBENA_CHECK(packet_with_icrc.size() == size_);
  if (!v4_) expected_id = 0;
  const Bytes packet = packet_with_icrc.first(size_ - kIcrcSize);
  const std::uint32_t syndrome =
      compute(packet, expected_id) ^ load_le32(packet.data() + packet.size());
  std::uint16_t ip_id = expected_id;
  if (syndrome != 0) {
    // The effect of another identification, moved back to before its two bytes, is the difference
    // of those two bytes in the lower half of the register and nothing in the upper half.
    const std::size_t back = packet.size() + kIpv4Prefix - kIpv4IdAt;
    if (!v4_ || back > kStepsBackMax) return std::nullopt;
    const std::uint32_t field = take_back(syndrome, back);
    if (field >> 16 != 0) return std::nullopt;
    ip_id = static_cast<std::uint16_t>(expected_id ^ ((field & 0xff) << 8 | field >> 8));
  }
  if (ip_id >= ids_accepted) return std::nullopt;
  return ip_id;
}

std::uint32_t IcrcFlow::compute(Bytes packet, std::uint16_t ip_id) const {
  return of_size(packet.size() + kIcrcSize).compute(packet, ip_id);
}

void IcrcFlow::seal(std::span<std::uint8_t> packet_with_room, std::uint16_t ip_id) const {
  of_size(packet_with_room.size()).seal(packet_with_room, ip_id);
}

}  // namespace verbena::wire
