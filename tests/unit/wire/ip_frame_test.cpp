// SPDX-License-Identifier: BSD-2-Clause
// The IP and UDP headers, compared with captured and hand-made ones.
#include "verbena/wire/ip_frame.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "verbena/wire/bytes.hpp"

namespace verbena::wire {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::uint32_t sum_of_words(const std::uint8_t* data, std::size_t length) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < length; i += 2) sum += load_be16(data + i);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

TEST(IpFrame, Ipv4HeaderOfAnAdapter) {
  // A ConnectX-4 Lx sent this header of a CNP (scapy, test/contrib/roce.uts).
  const Bytes captured{0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11,
                       0x91, 0x61, 0x0a, 0x00, 0x11, 0x01, 0x0a, 0x00, 0x12, 0x01,
                       0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00};
  const IpFrame frame{.source = IpAddress::v4(0x0a001101),
                      .destination = IpAddress::v4(0x0a001201),
                      .source_port = 0,
                      .traffic_class = 0xc2,
                      .hop_limit = 64,
                      .ip_id = 0x718c};
  Bytes out(frame.size());
  frame.write_to(out.data(), 32);
  EXPECT_EQ(out, captured);
  EXPECT_EQ(sum_of_words(out.data(), 20), 0xffffu);
}

TEST(IpFrame, Ipv6Header) {
  const IpFrame frame{.source = *IpAddress::parse("fd00::1"),
                      .destination = *IpAddress::parse("fd00::2"),
                      .source_port = 0xc001,
                      .traffic_class = 0xab,
                      .hop_limit = 7,
                      .flow_label = 0xcdef1};
  Bytes out(frame.size());
  frame.write_to(out.data(), 16);
  const Bytes meant{0x6a, 0xbc, 0xde, 0xf1, 0x00, 0x18, 17, 7,                          //
                    0xfd, 0,    0,    0,    0,    0,    0,  0, 0, 0, 0, 0, 0, 0, 0, 1,  //
                    0xfd, 0,    0,    0,    0,    0,    0,  0, 0, 0, 0, 0, 0, 0, 0, 2,  //
                    0xc0, 0x01, 0x12, 0xb7, 0x00, 0x18, 0,  0};
  EXPECT_EQ(out, meant);
}

TEST(IpFrame, UdpChecksumMakesTheSumOnes) {
  for (const bool v4 : {true, false}) {
    for (std::size_t payload = 0; payload < 9; ++payload) {
      const IpFrame frame{.source = *IpAddress::parse(v4 ? "127.0.0.1" : "fd00::1"),
                          .destination = *IpAddress::parse(v4 ? "127.0.0.2" : "fd00::2")};
      Bytes d(frame.size() + payload);
      frame.write_to(d.data(), payload);
      for (std::size_t i = 0; i < payload; ++i) {
        d[frame.size() + i] = static_cast<std::uint8_t>(0x51 * (i + 1));
      }
      set_udp_checksum(d.data(), d.size());
      const std::size_t ip = frame.size() - kUdpHeaderSize;
      // The sum covers addresses, UDP, and the pseudo header's protocol and length, in whole words.
      Bytes covered(d.begin() + (v4 ? 12 : 8), d.end());
      if (covered.size() % 2 != 0) covered.push_back(0);
      const std::size_t udp_length = d.size() - ip;
      covered.insert(covered.end(), {0, 17, 0, static_cast<std::uint8_t>(udp_length)});
      EXPECT_EQ(sum_of_words(covered.data(), covered.size()), 0xffffu) << v4 << payload;
    }
  }
}

TEST(IpFrame, Ipv4HeaderBehindTwentyZeros) {
  const IpFrame frame{.source = IpAddress::v4(0x7f000001),
                      .destination = IpAddress::v4(0x7f000002),
                      .traffic_class = 5,
                      .hop_limit = 9};
  Bytes out(41, 0xee);
  write_ipv4_in_grh(frame, 100, out.data());
  EXPECT_EQ(Bytes(out.begin(), out.begin() + 20), Bytes(20, 0));
  Bytes header(frame.size());
  frame.write_to(header.data(), 100);
  EXPECT_EQ(Bytes(out.begin() + 20, out.begin() + 40), Bytes(header.begin(), header.begin() + 20));
  EXPECT_EQ(out[40], 0xee);
}

}  // namespace
}  // namespace verbena::wire
