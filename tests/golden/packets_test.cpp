// SPDX-License-Identifier: BSD-2-Clause
// Whole packets: the committed bytes of packets.hex (judged by tshark and scapy, see judge.py),
// parsed back to what they were made of, and cut off at every length.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>

#include "golden_packets.hpp"
#include "verbena/base/random.hpp"
#include "verbena/wire/datagram.hpp"
#include "verbena/wire/icrc.hpp"

namespace verbena {
namespace {

using namespace wire;
using golden::GoldenPacket;

// A copy of exactly that size on the heap, so that AddressSanitizer sees a read beyond it.
struct Exact {
  explicit Exact(std::span<const std::uint8_t> from)
      : size(from.size()), bytes(new std::uint8_t[from.size()]) {
    std::copy(from.begin(), from.end(), bytes.get());
  }
  std::span<const std::uint8_t> span() const { return {bytes.get(), size}; }
  std::size_t size;
  std::unique_ptr<std::uint8_t[]> bytes;
};

// Reads every header that the row names.
void expect_same(const PacketView& view, const GoldenPacket& p) {
  EXPECT_EQ(view.opcode, p.opcode);
  const Bth& bth = p.headers.bth;
  EXPECT_EQ(Bth::read_from(view.start), bth);
  EXPECT_EQ(view.bth, (PacketBth{bth.psn, bth.dest_qp, bth.pkey, bth.pad, bth.solicited, bth.migreq,
                                 bth.ack_request}));
  const OpcodeRow& row = *view.row;
  if (row.xrceth) {
    EXPECT_EQ(view.xrceth(), p.headers.xrceth);
  }
  if (row.deth) {
    EXPECT_EQ(view.deth(), p.headers.deth);
  }
  if (row.feth) {
    EXPECT_EQ(view.feth(), p.headers.feth);
  }
  if (row.reth) {
    EXPECT_EQ(view.reth(), p.headers.reth);
  }
  if (row.atomic_eth) {
    EXPECT_EQ(view.atomic_eth(), p.headers.atomic_eth);
  }
  if (row.aeth) {
    EXPECT_EQ(view.aeth(), p.headers.aeth);
  }
  if (row.atomic_ack_eth) {
    EXPECT_EQ(view.atomic_ack_eth(), p.headers.atomic_ack_eth);
  }
  if (row.immediate) {
    EXPECT_EQ(view.immediate(), p.headers.immediate);
  }
  if (row.ieth) {
    EXPECT_EQ(view.ieth(), p.headers.ieth);
  }
}

TEST(GoldenPackets, AreTheCommittedBytes) {
  std::ifstream file(VERBENA_PACKETS_HEX);
  ASSERT_TRUE(file) << VERBENA_PACKETS_HEX;
  std::size_t index = 0;
  for (const GoldenPacket& p : golden::golden_packets()) {
    std::string line;
    ASSERT_TRUE(std::getline(file, line)) << p.name;
    const auto datagram = golden::golden_datagram(p, golden::golden_frame(index++));
    EXPECT_EQ(p.name + '|' + golden::to_hex(datagram), line);
  }
  std::string more;
  EXPECT_FALSE(std::getline(file, more)) << more;
}

TEST(GoldenPackets, ParseToWhatTheyWereMadeFrom) {
  for (const GoldenPacket& p : golden::golden_packets()) {
    SCOPED_TRACE(p.name);
    const Exact exact(p.bytes);
    const auto view = parse_packet(exact.span());
    ASSERT_TRUE(view.ok());
    expect_same(*view, p);
    EXPECT_EQ(std::vector(view->payload.begin(), view->payload.end()), p.payload);
    EXPECT_LE(view->row->header_bytes, kMaxHeaders);
  }
}

TEST(GoldenPackets, CutOffAtEveryLengthAreRefusedOrShorter) {
  for (const GoldenPacket& p : golden::golden_packets()) {
    const std::size_t header_bytes = row_of(p.opcode).header_bytes;
    for (std::size_t length = 0; length < p.bytes.size(); ++length) {
      SCOPED_TRACE(p.name + " cut to " + std::to_string(length));
      const Exact cut(std::span(p.bytes).first(length));
      const auto view = parse_packet(cut.span());
      if (length < header_bytes) {
        ASSERT_FALSE(view.ok());
        EXPECT_EQ(view.error(), DropReason::kTooShort);
      } else if (length % 4 != 0 || length - header_bytes < p.headers.bth.pad) {
        ASSERT_FALSE(view.ok());
        EXPECT_EQ(view.error(), DropReason::kBadPad);
      } else {
        ASSERT_TRUE(view.ok());
        expect_same(*view, p);
        EXPECT_EQ(view->payload.size(), length - header_bytes - p.headers.bth.pad);
      }
    }
  }
}

TEST(GoldenPackets, CutOffAtEveryLengthFailTheIcrc) {
  std::size_t index = 0;
  for (const GoldenPacket& p : golden::golden_packets()) {
    const IpFrame frame = golden::golden_frame(index++);
    const auto datagram = golden::golden_datagram(p, frame);
    const IcrcFlow flow(frame.source, frame.destination, frame.source_port);
    const auto packet = std::span(datagram).subspan(frame.size());
    EXPECT_EQ(flow.verify(packet), frame.ip_id) << p.name;
    for (std::size_t length = 0; length < packet.size(); ++length) {
      const Exact cut(packet.first(length));
      EXPECT_FALSE(flow.verify(cut.span(), 1)) << p.name << " cut to " << length;
    }
  }
}

TEST(GoldenPackets, WrongVersionAndUnknownOpcodesAreNamed) {
  std::vector<std::uint8_t> bytes(64);
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    bytes[0] = static_cast<std::uint8_t>(opcode);
    bytes[1] = 0;
    const auto view = parse_packet(bytes);
    EXPECT_EQ(view.ok(), row_of(bytes[0]).valid);
    if (!view.ok()) {
      EXPECT_EQ(view.error(), DropReason::kUnknownOpcode);
    }
    for (std::uint8_t version = 1; version < 16; ++version) {
      bytes[1] = version;
      const auto wrong = parse_packet(bytes);
      ASSERT_FALSE(wrong.ok());
      EXPECT_EQ(wrong.error(), DropReason::kBadVersion);
    }
  }
}

TEST(GoldenPackets, RandomBytesNeverLeadOutside) {
  Random random(11);
  for (int i = 0; i < 50'000; ++i) {
    std::vector<std::uint8_t> bytes(random.below(80));
    for (auto& b : bytes) b = static_cast<std::uint8_t>(random.next());
    if (bytes.size() > 1) bytes[1] &= 0xf0;
    const Exact exact(bytes);
    const auto view = parse_packet(exact.span());
    if (!view.ok()) continue;
    const auto end = exact.span().data() + exact.size;
    EXPECT_LE(view->payload.data() + view->payload.size() + view->bth.pad, end);
    EXPECT_EQ(view->payload.size() + view->bth.pad + view->row->header_bytes, exact.size);
  }
}

}  // namespace
}  // namespace verbena
