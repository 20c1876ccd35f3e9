// SPDX-License-Identifier: BSD-2-Clause
// Packets that came as one buffer: taken in under one lock, and those that are one piece of a
// message as one packet that stands for them, which costs little more than one of them.
#include "verbena/device/device.hpp"

namespace verbena::device {
namespace {

// The second byte of a BTH without what the last packet of a message may have of its own: whether
// it is solicited, and pad.
constexpr std::uint8_t kOfAllPackets = 0x4f;

// Of requests: merging answers to READs gains nothing.
bool is_plain_data(const wire::OpcodeRow& row) {
  return wire::may_stand_for_several(row) && !row.response && row.header_bytes == wire::Bth::kSize;
}

// Whether `bytes` hold the packet so many PSNs behind `head` of the same message, as `row`, a plain
// one, would have it.
bool goes_on(const wire::PacketView& head, std::uint32_t behind, std::uint32_t mtu,
             std::span<const std::uint8_t> bytes, const wire::OpcodeRow& row) {
  const wire::BthView bth(bytes.data());
  if (row.operation != head.row->operation || row.starts_message || !is_plain_data(row)) {
    return false;
  }
  const std::size_t length = bytes.size() - wire::Bth::kSize;
  const bool is_long_enough = row.ends_message ? length > bth.pad() : length == mtu;
  const std::uint8_t differs = row.ends_message ? kOfAllPackets : std::uint8_t{0xff};
  return is_long_enough && length % 4 == 0 && bth.mark() == 0 &&
         ((bytes[1] ^ head.start[1]) & differs) == 0 && bth.pkey() == head.bth.pkey &&
         bth.psn() == head.bth.psn + behind;
}

// Makes `packet`, the one at `first`, stand for as many of the run as are one piece of a message,
// each as long as it has to be. What is refused of such a piece, for want of a receive or of room
// in it, is refused as a whole.
void merge(wire::PacketView& packet, const wire::RxRun& run, std::uint32_t first,
           std::uint32_t mtu) {
  if (!is_plain_data(*packet.row) || packet.row->ends_message || packet.payload.size() != mtu ||
      wire::BthView(packet.start).mark() != 0) {
    return;
  }
  bool ack_request = packet.bth.ack_request;
  bool has_ended = false;
  std::uint32_t count = 1;
  std::size_t length = mtu;
  for (; first + count < run.count && !has_ended; ++count) {
    const auto bytes = run.bytes_at(first + count);
    const wire::BthView bth(bytes.data());
    const wire::OpcodeRow& row = wire::row_of(bth.opcode());
    if (!goes_on(packet, count, mtu, bytes, row)) break;
    ack_request = ack_request || bth.ack_request();
    length += bytes.size() - wire::Bth::kSize - bth.pad();
    has_ended = row.ends_message;
    packet.bth.solicited = bth.solicited();
  }
  if (count == 1) return;
  const wire::OpcodeRow& row = *packet.row;
  const wire::Place starts = has_ended ? wire::Place::kOnly : wire::Place::kFirst;
  const wire::Place goes_on = has_ended ? wire::Place::kLast : wire::Place::kMiddle;
  packet.opcode =
      wire::make_opcode(row.transport, row.operation, row.starts_message ? starts : goes_on);
  packet.row = &wire::row_of(packet.opcode);
  packet.bth.ack_request = ack_request;
  packet.psns = count;
  packet.payload_step = static_cast<std::uint32_t>(run.step);
  packet.data_length = length;
}

}  // namespace

void Device::handle_run(TimeNs now, const wire::RxRun& run) {
  const wire::BthView head(run.head.bytes.data());
  qp::QueuePair* qp = is_port_active() ? table_.find(head.dest_qp()) : nullptr;
  if (qp == nullptr || qp->transport() == Transport::kUd) {
    for (std::uint32_t i = 0; i < run.count; ++i) handle_datagram(now, run.at(i));
    return;
  }
  counters_.received.packets.add(run.count);
  counters_.received.bytes.add((run.count - std::uint64_t{1}) * run.head.bytes.size() +
                               run.last_length);
  if (run.head.piggybacked_ack) count_piggybacked_ack();
  const Guard guard(qp->lock());
  wire::RxDatagram datagram = run.head;
  for (std::uint32_t i = 0; i < run.count;) {
    datagram.bytes = run.bytes_at(i);
    auto packet = wire::parse_packet(datagram.bytes);
    if (!packet.ok()) {
      counters_.drops.count(packet.error());
      ++i;
      continue;
    }
    if (i == 0 && run.head.piggybacked_ack) packet->piggybacked_ack = &*run.head.piggybacked_ack;
    if (packet->bth.psn == qp->expected_psn()) merge(*packet, run, i, qp->endpoint().mtu);
    qp->handle_packet(*packet, datagram, now);
    i += packet->psns;
  }
  note_pending(*qp, now);
  rearm(*qp);
}

}  // namespace verbena::device
