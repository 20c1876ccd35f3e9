// SPDX-License-Identifier: BSD-2-Clause
// The ICRC, compared with vectors of other origin and with a bit-by-bit computation that shares no
// line with the room. IPv6 has no vector of other origin, so only the second computation checks it
// (judge.py repeats it in a third language).
#include "verbena/wire/icrc.hpp"

#include <gtest/gtest.h>

#include "golden_packets.hpp"
#include "verbena/base/random.hpp"
#include "verbena/wire/bth.hpp"
#include "verbena/wire/crc32.hpp"

namespace verbena {
namespace {

using namespace wire;
using Bytes = std::vector<std::uint8_t>;

// The rule as it is written: ones for the LRH and for fields that routers change, bit by bit.
std::uint32_t icrc_bit_by_bit(Bytes datagram_without_icrc) {
  Bytes& d = datagram_without_icrc;
  const bool v4 = d[0] >> 4 == 4;
  const std::size_t ip = v4 ? 20 : 40;
  if (v4) {
    d[1] = d[8] = d[10] = d[11] = 0xff;
  } else {
    d[0] |= 0x0f;
    d[1] = d[2] = d[3] = d[7] = 0xff;
  }
  d[ip + 6] = d[ip + 7] = 0xff;
  d[ip + 8 + 4] = 0xff;
  d.insert(d.begin(), 8, 0xff);
  std::uint32_t crc = 0xffffffff;
  for (const std::uint8_t byte : d) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool one = ((crc ^ (byte >> bit)) & 1) != 0;
      crc = crc >> 1 ^ (one ? 0xedb88320u : 0);
    }
  }
  return ~crc;
}

std::uint32_t last_le32(const Bytes& d) { return load_le32(d.data() + d.size() - 4); }
Bytes without_icrc(Bytes d) {
  d.resize(d.size() - 4);
  return d;
}

struct Vector {
  const char* origin;
  const char* datagram;  // from the IPv4 header to the ICRC
};
const Vector kVectors[] = {
    {"scapy, test/contrib/roce.uts: RC Acknowledge",
     "45010040047840004011b4d5c0a80007c0a80007c00012b7002caca22460ffff000000d300cf1710"
     "4630818be28935d90e9a95505401be885e50000078f353f3"},
    {"scapy, test/contrib/roce.uts: CNP that a ConnectX-4 Lx sent",
     "45c2003c718c4000401191610a0011010a001201000012b7002800008100ffff4000011800000000"
     "0000000000000000000000000000000082fd002a"},
    {"computed with scapy 2.5: RC SEND Only, IP identification 0 as we send it",
     "4500003c0000400040113cae7f0000017f000002c00012b70028af530440ffff0000001280345678"
     "000102030405060708090a0b0c0d0e0fba5eb1f1"},
};

IcrcFlow flow_of_v4(const Bytes& d) {
  return {IpAddress::v4(load_be32(d.data() + 12)), IpAddress::v4(load_be32(d.data() + 16)),
          load_be16(d.data() + 20), load_be16(d.data() + 22)};
}

TEST(Icrc, VectorsFromElsewhere) {
  for (const Vector& v : kVectors) {
    SCOPED_TRACE(v.origin);
    const Bytes d = golden::from_hex(v.datagram);
    const std::uint16_t id = load_be16(d.data() + 4);
    const IcrcFlow flow = flow_of_v4(d);
    const auto sealed = std::span(d).subspan(28);
    EXPECT_EQ(icrc_bit_by_bit(without_icrc(d)), last_le32(d)) << "the test's own computation";
    EXPECT_EQ(flow.compute(sealed.first(sealed.size() - 4), id), last_le32(d));
    EXPECT_EQ(flow.verify(sealed), id);

    Bytes again(sealed.begin(), sealed.end());
    std::fill(again.end() - 4, again.end(), 0);
    flow.seal(again, id);
    EXPECT_TRUE(std::equal(again.begin(), again.end(), sealed.begin(), sealed.end()));
  }
}

TEST(Icrc, IdentificationThreeOfTheThirdVector) {
  Bytes d = golden::from_hex(kVectors[2].datagram);
  const IcrcFlow flow = flow_of_v4(d);
  const auto packet = std::span(d).subspan(28).first(d.size() - 28 - 4);
  Bytes icrc(4);
  store_le32(icrc.data(), flow.compute(packet, 3));
  EXPECT_EQ(golden::to_hex(icrc), "4e4c8374");
}

struct Case {
  IpFrame frame;
  Bytes datagram;  // with ICRC, from the bit-by-bit computation
};

Case random_case(Random& random, bool v4) {
  Case c;
  const auto address = [&] {
    if (v4) return IpAddress::v4(static_cast<std::uint32_t>(random.next()));
    std::array<std::uint8_t, 16> bytes;
    for (auto& b : bytes) b = static_cast<std::uint8_t>(random.next());
    bytes[0] = 0xfd;
    return IpAddress::v6(bytes);
  };
  c.frame = {.source = address(),
             .destination = address(),
             .source_port = static_cast<std::uint16_t>(random.next()),
             .destination_port = static_cast<std::uint16_t>(random.next()),
             .traffic_class = static_cast<std::uint8_t>(random.next()),
             .hop_limit = static_cast<std::uint8_t>(random.next()),
             .flow_label = static_cast<std::uint32_t>(random.below(1 << 20)),
             .ip_id = static_cast<std::uint16_t>(v4 ? random.next() : 0)};
  const std::size_t packet = Bth::kSize + 4 * random.below(1100);
  c.datagram.resize(c.frame.size() + packet);
  c.frame.write_to(c.datagram.data(), packet + 4);
  for (std::size_t i = c.frame.size(); i < c.datagram.size(); ++i) {
    c.datagram[i] = static_cast<std::uint8_t>(random.next());
  }
  set_udp_checksum(c.datagram.data(), c.datagram.size());
  const std::uint32_t icrc = icrc_bit_by_bit(c.datagram);
  c.datagram.resize(c.datagram.size() + 4);
  store_le32(c.datagram.data() + c.datagram.size() - 4, icrc);
  return c;
}

TEST(Icrc, AgreesWithTheBitByBitComputation) {
  Random random(3);
  for (int i = 0; i < 300; ++i) {
    const Case c = random_case(random, i % 2 == 0);
    SCOPED_TRACE(i);
    const IcrcFlow flow(c.frame.source, c.frame.destination, c.frame.source_port,
                        c.frame.destination_port);
    const auto sealed = std::span(c.datagram).subspan(c.frame.size());
    const auto packet = sealed.first(sealed.size() - 4);
    EXPECT_EQ(flow.compute(packet, c.frame.ip_id), last_le32(c.datagram));
    EXPECT_EQ(flow.verify(sealed), c.frame.ip_id);
  }
}

TEST(Icrc, SealsAlikeWhereTheEndIsSummedAlready) {
  Random random(4);
  int summed_packets = 0;
  for (int i = 0; i < 300; ++i) {
    Case c = random_case(random, i % 2 == 0);
    SCOPED_TRACE(i);
    const IcrcFlow flow(c.frame.source, c.frame.destination, c.frame.source_port,
                        c.frame.destination_port);
    const auto sealed = std::span(c.datagram).subspan(c.frame.size());
    const std::uint32_t meant = last_le32(c.datagram);
    for (const std::size_t summed : {1024u, 2048u, 4096u}) {
      if (sealed.size() < Bth::kSize + summed + kIcrcSize) continue;
      const std::uint8_t* end = sealed.data() + sealed.size() - kIcrcSize;
      store_le32(sealed.data() + sealed.size() - kIcrcSize, 0);
      flow.of_size(sealed.size())
          .seal(sealed, c.frame.ip_id, summed, crc32(0, end - summed, summed));
      EXPECT_EQ(last_le32(c.datagram), meant);
      ++summed_packets;
    }
  }
  EXPECT_GT(summed_packets, 100);
}

TEST(Icrc, FindsEveryIdentification) {
  Random random(5);
  const Case c = random_case(random, true);
  const IcrcFlow flow(c.frame.source, c.frame.destination, c.frame.source_port,
                      c.frame.destination_port);
  Bytes sealed(c.datagram.begin() + static_cast<std::ptrdiff_t>(c.frame.size()), c.datagram.end());
  for (std::uint32_t id = 0; id < 0x10000; ++id) {
    flow.seal(sealed, static_cast<std::uint16_t>(id));
    ASSERT_EQ(flow.verify(sealed), id);
    ASSERT_EQ(flow.verify(sealed, 128).has_value(), id < 128);
  }
}

// The expected identification is found faster, but the result is the same.
TEST(Icrc, FindsAnIdentificationOtherThanTheOneExpected) {
  Random random(7);
  for (const bool v4 : {true, false}) {
    const Case c = random_case(random, v4);
    const IcrcFlow flow(c.frame.source, c.frame.destination, c.frame.source_port,
                        c.frame.destination_port);
    Bytes sealed(c.datagram.begin() + static_cast<std::ptrdiff_t>(c.frame.size()),
                 c.datagram.end());
    const IcrcFlow::Sized sized = flow.of_size(sealed.size());
    for (const std::uint16_t id : {0, 1, 63, 127, 128, 0x718c, 0xffff}) {
      flow.seal(sealed, id);
      for (const std::uint16_t expected : {0, 1, 127, 0x718c}) {
        EXPECT_EQ(sized.verify(sealed, expected, 0x10000), v4 ? id : 0);
        EXPECT_EQ(sized.verify(sealed, expected, 128).has_value(), !v4 || id < 128);
      }
    }
    sealed.back() ^= 0x10;
    EXPECT_FALSE(sized.verify(sealed, 1, 128));
  }
}

TEST(Icrc, CongestionBitsAreNotCoveredAndAllElseIs) {
  Random random(6);
  for (const bool v4 : {true, false}) {
    Case c = random_case(random, v4);
    c.datagram.resize(c.frame.size() + 64 + 4);
    const IcrcFlow flow(c.frame.source, c.frame.destination, c.frame.source_port,
                        c.frame.destination_port);
    const auto sealed = std::span(c.datagram).subspan(c.frame.size());
    flow.seal(sealed);
    for (std::size_t byte = 0; byte < sealed.size(); ++byte) {
      for (int bit = 0; bit < 8; ++bit) {
        sealed[byte] ^= static_cast<std::uint8_t>(1 << bit);
        EXPECT_EQ(flow.verify(sealed, 128).has_value(), byte == 4) << byte << ' ' << bit;
        sealed[byte] ^= static_cast<std::uint8_t>(1 << bit);
      }
    }
  }
}

TEST(Icrc, AnotherFlowDoesNotFit) {
  const IpAddress a = IpAddress::v4(0x7f000001), b = IpAddress::v4(0x7f000002);
  Bytes sealed(Bth::kSize + 4);
  const IcrcFlow flow(a, b, 0xc000);
  flow.seal(sealed);
  EXPECT_TRUE(flow.verify(sealed, 1));
  EXPECT_FALSE(IcrcFlow(b, a, 0xc000).verify(sealed, 1));
  EXPECT_FALSE(IcrcFlow(a, b, 0xc001).verify(sealed, 1));
  EXPECT_FALSE(IcrcFlow(a, b, 0xc000, 4792).verify(sealed, 1));
  EXPECT_FALSE(flow.verify(std::span(sealed).first(Bth::kSize + 3)));
}

}  // namespace
}  // namespace verbena
