// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/wire/ip_frame.hpp"

#include <cstring>

#include "verbena/base/check.hpp"
#include "verbena/wire/bytes.hpp"

namespace verbena::wire {
namespace {

constexpr std::uint8_t kProtocolUdp = 17;
constexpr std::uint16_t kDoNotFragment = 0x4000;

// Adds 16-bit words for a ones' complement sum; an odd last byte is padded with zero.
std::uint32_t add_words(std::uint32_t sum, const std::uint8_t* data, std::size_t length) {
  for (; length >= 2; data += 2, length -= 2) sum += load_be16(data);
  if (length != 0) sum += static_cast<std::uint32_t>(*data) << 8;
  return sum;
}
std::uint16_t fold_sum(std::uint32_t sum) {
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

void write_ipv4(const IpFrame& frame, std::size_t udp_length, std::uint8_t* out) {
  out[0] = 0x45;
  out[1] = frame.traffic_class;
  store_be16(out + 2, static_cast<std::uint16_t>(kIpv4HeaderSize + udp_length));
  store_be16(out + 4, frame.ip_id);
  store_be16(out + 6, kDoNotFragment);
  out[8] = frame.hop_limit;
  out[9] = kProtocolUdp;
  store_be16(out + 10, 0);
  store_be32(out + 12, frame.source.v4_host_order());
  store_be32(out + 16, frame.destination.v4_host_order());
  store_be16(out + 10, fold_sum(add_words(0, out, kIpv4HeaderSize)));
}

void write_ipv6(const IpFrame& frame, std::size_t udp_length, std::uint8_t* out) {
  store_be32(out,
             6u << 28 | std::uint32_t{frame.traffic_class} << 20 | (frame.flow_label & 0xfffff));
  store_be16(out + 4, static_cast<std::uint16_t>(udp_length));
  out[6] = kProtocolUdp;
  out[7] = frame.hop_limit;
  std::memcpy(out + 8, frame.source.bytes.data(), 16);
  std::memcpy(out + 24, frame.destination.bytes.data(), 16);
}

}  // namespace

std::size_t IpFrame::size() const {
  return (destination.is_v4() ? kIpv4HeaderSize : kIpv6HeaderSize) + kUdpHeaderSize;
}

void IpFrame::write_to(std::uint8_t* out, std::size_t payload) const {
  VERBENA_CHECK(source.is_v4() == destination.is_v4());
  const std::size_t udp_length = kUdpHeaderSize + payload;
  std::uint8_t* udp = out + (destination.is_v4() ? kIpv4HeaderSize : kIpv6HeaderSize);
  destination.is_v4() ? write_ipv4(*this, udp_length, out) : write_ipv6(*this, udp_length, out);
  store_be16(udp, source_port);
  store_be16(udp + 2, destination_port);
  store_be16(udp + 4, static_cast<std::uint16_t>(udp_length));
  store_be16(udp + 6, 0);
}

void set_udp_checksum(std::uint8_t* datagram, std::size_t length) {
  const bool v4 = datagram[0] >> 4 == 4;
  const std::size_t header = v4 ? kIpv4HeaderSize : kIpv6HeaderSize;
  VERBENA_CHECK(length >= header + kUdpHeaderSize);
  std::uint8_t* udp = datagram + header;
  const std::size_t udp_length = length - header;
  store_be16(udp + 6, 0);
  // The pseudo header: both addresses, protocol, length.
  std::uint32_t sum = add_words(0, datagram + (v4 ? 12 : 8), v4 ? 8 : 32);
  sum += kProtocolUdp + static_cast<std::uint32_t>(udp_length);
  const std::uint16_t checksum = fold_sum(add_words(sum, udp, udp_length));
  store_be16(udp + 6, checksum == 0 ? 0xffff : checksum);
}

void write_ipv4_in_grh(const IpFrame& frame, std::size_t payload, std::uint8_t* out) {
  VERBENA_CHECK(frame.source.is_v4() && frame.destination.is_v4());
  std::memset(out, 0, 20);
  write_ipv4(frame, kUdpHeaderSize + payload, out + 20);
}

}  // namespace verbena::wire
