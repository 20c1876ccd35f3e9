// SPDX-License-Identifier: BSD-2-Clause
// Any bytes as a packet from the network: the ICRC is checked, then the packet is parsed and every
// getter of the view is called. What write_headers makes of a parsed packet must parse to the same
// packet, and a sealed packet must pass its own check.
//
// The first byte chooses the flow (bit 0: IPv6, bits 1 and 2: ports). The rest is a packet with its
// ICRC.
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "verbena/wire/icrc.hpp"
#include "verbena/wire/packet.hpp"

namespace {

using namespace verbena;
using namespace verbena::wire;

IcrcFlow flow_for(std::uint8_t choice) {
  const auto port = static_cast<std::uint16_t>(0xc000 + (choice >> 1 & 3));
  if (choice & 1) return {*IpAddress::parse("fd00::1"), *IpAddress::parse("fd00::2"), port};
  return {IpAddress::v4(0x7f010001), IpAddress::v4(0x7f010002), port};
}

PacketHeaders headers_of(const PacketView& view) {
  PacketHeaders h;
  const OpcodeRow& row = *view.row;
  h.bth = wire::Bth::read_from(view.start);
  if (row.xrceth) h.xrceth = view.xrceth();
  if (row.deth) h.deth = view.deth();
  if (row.feth) h.feth = view.feth();
  if (row.reth) h.reth = view.reth();
  if (row.atomic_eth) h.atomic_eth = view.atomic_eth();
  if (row.aeth) h.aeth = view.aeth();
  if (row.atomic_ack_eth) h.atomic_ack_eth = view.atomic_ack_eth();
  if (row.immediate) h.immediate = view.immediate();
  if (row.ieth) h.ieth = view.ieth();
  return h;
}

// Writes and parses the headers again: the fields are the same, and no byte behind them is touched.
void write_again(const PacketView& view) {
  constexpr std::uint8_t kUntouched = 0xa5;
  std::array<std::uint8_t, kMaxHeaders + 1> out;
  out.fill(kUntouched);
  const std::size_t length = write_headers(view.opcode, headers_of(view), out.data());
  VERBENA_CHECK(length == view.row->header_bytes && out[length] == kUntouched);
  const auto again = parse_packet(std::span(out).first(length + 4));  // room for any pad
  VERBENA_CHECK(again.ok() && again->bth == view.bth);
  std::array<std::uint8_t, kMaxHeaders> twice;
  VERBENA_CHECK(write_headers(again->opcode, headers_of(*again), twice.data()) == length);
  VERBENA_CHECK(std::memcmp(out.data(), twice.data(), length) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const IcrcFlow flow = flow_for(data[0]);
  const std::span<const std::uint8_t> bytes(data + 1, size - 1);
  const auto ip_id = flow.verify(bytes);
  if (ip_id) VERBENA_CHECK(flow.verify(bytes, *ip_id + 1u) == ip_id);

  if (bytes.size() < kIcrcSize) return 0;
  const auto packet = bytes.first(bytes.size() - kIcrcSize);
  const auto view = parse_packet(packet);
  if (!view.ok()) {
    VERBENA_CHECK(!to_string(view.error()).empty());
    return 0;
  }
  VERBENA_CHECK(view->row->header_bytes + view->payload.size() + view->bth.pad == packet.size());
  write_again(*view);

  std::vector<std::uint8_t> sealed(bytes.begin(), bytes.end());
  flow.seal(sealed);
  VERBENA_CHECK(flow.verify(sealed) == 0);
  return 0;
}
