// SPDX-License-Identifier: BSD-2-Clause
#include "golden_packets.hpp"

#include <algorithm>

#include "verbena/base/random.hpp"
#include "verbena/wire/icrc.hpp"

namespace verbena::golden {
namespace {

using namespace wire;

// Returns a payload length that suits the operation: 0, the 8 bytes of an atomic write, or others.
std::size_t payload_length(const OpcodeRow& row, std::uint8_t opcode) {
  if (!row.payload) return 0;
  if (row.operation == Operation::kAtomicWrite) return 8;
  if (row.place == Place::kFirst || row.place == Place::kMiddle) return 256;
  return 16 + opcode % 4;
}

GoldenPacket make_packet(std::uint8_t opcode, Aeth aeth, const std::string& suffix) {
  const OpcodeRow& row = row_of(opcode);
  Random random(0x676f6c64ull + opcode * 256ull + aeth.syndrome);
  const auto u32 = [&random] { return static_cast<std::uint32_t>(random.next()); };

  GoldenPacket p;
  p.opcode = opcode;
  p.name = std::string(row.name) + suffix;
  p.payload.resize(payload_length(row, opcode));
  for (std::uint8_t& b : p.payload) b = static_cast<std::uint8_t>(random.next());

  const bool cnp = row.operation == Operation::kCnp;
  p.headers.bth = {.opcode = opcode,
                   .solicited = !cnp && row.ends_message && opcode % 2 == 0,
                   .migreq = opcode % 3 == 0,
                   .pad = pad_for(p.payload.size()),
                   .version = 0,
                   .pkey = static_cast<std::uint16_t>(0x8000 | random.below(0x7fff)),
                   .fecn = opcode % 5 == 1 && !cnp,
                   .becn = cnp,
                   .dest_qp = Qpn(u32()),
                   .ack_request = row.request && row.transport != WireTransport::kUd,
                   .psn = Psn(u32())};
  p.headers.xrceth.srqn = u32() & kMask24;
  p.headers.deth = {u32(), Qpn(u32())};
  p.headers.feth = {kFlushGlobalVisibility | kFlushPersistence,
                    static_cast<std::uint8_t>(FlushSelectivity::kWholeRegion)};
  p.headers.reth = {random.next(), u32(), u32()};
  p.headers.atomic_eth = {random.next(), u32(), random.next(), random.next()};
  p.headers.aeth = aeth;
  p.headers.aeth.msn = u32() & kMask24;
  p.headers.atomic_ack_eth.original = random.next();
  p.headers.immediate.data = u32();
  p.headers.ieth.rkey = u32();

  std::uint8_t headers[64];
  const std::size_t header_bytes = write_headers(opcode, p.headers, headers);
  p.bytes.assign(headers, headers + header_bytes);
  p.bytes.insert(p.bytes.end(), p.payload.begin(), p.payload.end());
  p.bytes.resize(p.bytes.size() + p.headers.bth.pad, 0);
  return p;
}

}  // namespace

std::vector<GoldenPacket> golden_packets() {
  std::vector<GoldenPacket> packets;
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    const auto o = static_cast<std::uint8_t>(opcode);
    if (row_of(o).valid) packets.push_back(make_packet(o, Aeth::ack(11, 0), ""));
  }
  const auto ack = static_cast<std::uint8_t>(Opcode::kRcAcknowledge);
  packets.push_back(make_packet(ack, Aeth::ack(kCreditsUnlimited, 0), ", credits not counted"));
  packets.push_back(make_packet(ack, Aeth::rnr_nak(14, 0), ", RNR NAK"));
  for (std::uint8_t code = 0; code < kNakCodes; ++code) {
    const auto nak = static_cast<NakCode>(code);
    packets.push_back(make_packet(ack, Aeth::nak(nak, 0), ", NAK " + std::string(to_string(nak))));
  }
  return packets;
}

IpFrame golden_frame(std::size_t index) {
  const auto n = static_cast<std::uint16_t>(index);
  IpFrame frame{.source = IpAddress::v4(0x7f010001),
                .destination = IpAddress::v4(0x7f010002),
                .source_port = static_cast<std::uint16_t>(0xc000 + n),
                .traffic_class = static_cast<std::uint8_t>(n * 4 + 2),
                .hop_limit = static_cast<std::uint8_t>(64 - n % 32)};
  if (index % 3 == 1) frame.ip_id = static_cast<std::uint16_t>(0x718c + n);
  if (index % 3 == 2) {
    frame.source = *IpAddress::parse("fd00:1:2::3");
    frame.destination = *IpAddress::parse("fd00:1:2::8000:4");
    frame.flow_label = 0x12345u + n;
  }
  return frame;
}

std::vector<std::uint8_t> golden_datagram(const GoldenPacket& packet, const IpFrame& frame) {
  const std::size_t sealed = packet.bytes.size() + kIcrcSize;
  std::vector<std::uint8_t> datagram(frame.size() + sealed);
  frame.write_to(datagram.data(), sealed);
  std::copy(packet.bytes.begin(), packet.bytes.end(), datagram.begin() + frame.size());
  const IcrcFlow flow(frame.source, frame.destination, frame.source_port, frame.destination_port);
  flow.seal(std::span(datagram).subspan(frame.size()), frame.ip_id);
  set_udp_checksum(datagram.data(), datagram.size());
  return datagram;
}

std::string to_hex(const std::vector<std::uint8_t>& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t b : bytes) {
    text += kDigits[b >> 4];
    text += kDigits[b & 15];
  }
  return text;
}

std::vector<std::uint8_t> from_hex(const std::string& text) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<std::uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

}  // namespace verbena::golden
