// SPDX-License-Identifier: BSD-2-Clause
// UC and UD: no answers. What does not fit is dropped, with its reason counted.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>

#include "verbena/responder/responder.hpp"
#include "verbena/wire/bytes.hpp"
#include "verbena/wire/grh.hpp"
#include "verbena/wire/ip_frame.hpp"

namespace verbena::responder {

using queue::AsyncEvent;
using queue::CompletionOpcode;
using queue::Payload;
using queue::Status;
using wire::Operation;

void Responder::handle_unconnected(const wire::PacketView& packet,
                                   const wire::RxDatagram& datagram) {
  if (endpoint_.transport == Transport::kUc) {
    handle_uc(packet);
  } else {
    handle_ud(packet, datagram);
  }
}

// IBTA Vol 1, 9.8.2.2: after a gap everything up to the next start of a message is dropped. The
// receive that a broken message had begun to fill serves the next one.
void Responder::handle_uc(const wire::PacketView& packet) {
  const wire::OpcodeRow& row = *packet.row;
  // Later than what came after it: a network's duplicate or straggler.
  if (packet.bth.psn.is_before(expected_)) {
    if (!is_in_step_) note_foreign_psn(packet.bth.psn);
    return endpoint_.drops->count(DropReason::kDuplicate);
  }
  is_in_step_ = true;
  const bool in_order = packet.bth.psn == expected_;
  if (!in_order || (row.starts_message && message_ != Message::kNone)) message_ = Message::kNone;
  if (!row.starts_message && check_order(packet)) {
    expected_ = packet.bth.psn + 1;
    endpoint_.drops->count(DropReason::kOutOfSequence);
    return;
  }
  expected_ = packet.bth.psn + 1;
  if (check_length(packet)) {
    message_ = Message::kNone;
    endpoint_.drops->count(DropReason::kMalformed);
    return;
  }
  const bool send = row.operation == Operation::kSend;
  if ((send && row.starts_message) || (!send && row.immediate)) {
    const std::uint64_t so_far = arrived_;
    if (!receive_active_ && !take_receive(packet, {})) {
      message_ = Message::kNone;
      endpoint_.drops->count(DropReason::kNoReceive);
      return;
    }
    arrived_ = send ? 0 : so_far;
  }
  if (send) {
    if (arrived_ + packet.payload.size() > receive_->capacity) {
      message_ = Message::kNone;
      outgrow_receive(packet.payload.size());
      return;
    }
    if (!fill_receive(Payload(packet.payload))) return;
  } else {
    if (row.starts_message) {
      write_ = packet.reth();
      arrived_ = 0;
    }
    const std::uint64_t end = arrived_ + packet.payload.size();
    const memory::AccessRequest request{write_.rkey,          endpoint_.domain,
                                        write_.va + arrived_, packet.payload.size(),
                                        memory::kRemoteWrite, endpoint_.number.value()};
    auto pin = endpoint_.memory->pin(request);
    const bool empty = packet.payload.empty();
    if ((endpoint_.access_flags & memory::kRemoteWrite) == 0 || end > write_.length ||
        (row.ends_message && end != write_.length) || (!empty && !pin.ok())) {
      return drop_write(request, pin.ok() ? std::nullopt : std::optional(pin.error()));
    }
    if (!empty && !pin->write(0, packet.payload.data(), packet.payload.size())) [[unlikely]] {
      return drop_write(request, memory::Refusal::kNotMapped);
    }
    arrived_ = end;
  }
  endpoint_.counters.bytes_received.add(packet.payload.size());
  message_ = send ? Message::kSend : Message::kWrite;
  if (!row.ends_message) return;
  message_ = Message::kNone;
  (send ? endpoint_.port->received.sends : endpoint_.port->received.writes).add();
  if (send)
    complete_receive(packet, CompletionOpcode::kReceive, static_cast<std::uint32_t>(arrived_));
  if (!send && row.immediate) complete_receive_of_write(packet);
}

void Responder::drop_write(const memory::AccessRequest& request,
                           std::optional<memory::Refusal> refusal) {
  message_ = Message::kNone;
  endpoint_.drops->count(DropReason::kMalformed);
  if ((endpoint_.access_flags & memory::kRemoteWrite) == 0) {
    queue::explain(endpoint_,
                   "an RDMA WRITE of the peer was dropped: the qp_access_flags lack "
                   "IBV_ACCESS_REMOTE_WRITE");
  } else if (refusal) {
    queue::explain(endpoint_, "an RDMA WRITE of the peer was dropped: %s",
                   endpoint_.memory->explain(request, *refusal).c_str());
  } else {
    queue::explain(endpoint_,
                   "an RDMA WRITE of the peer was dropped: its packets do not add up to "
                   "the %u bytes that it announced",
                   write_.length);
  }
}

namespace {

// What programs on Ethernet find in a completion's service level, as mlx5 adapters have it: that
// there was a UDP header, and behind which kind of IP header.
constexpr std::uint8_t kOfUdpIpv4 = 8 | 2;
constexpr std::uint8_t kOfUdpIpv6 = 8 | 1;

// A port without LIDs is an Ethernet one.
bool is_ethernet(const wire::RxDatagram& datagram) { return datagram.source_lid == 0; }

using GrhBytes = std::array<std::uint8_t, wire::Grh::kSize>;

GrhBytes grh_of(const wire::RxDatagram& datagram, std::optional<std::uint32_t> first_word) {
  GrhBytes bytes{};
  const std::size_t sealed = datagram.bytes.size() + wire::kIcrcSize;
  const bool is_v4 = datagram.source.is_v4() && datagram.destination.is_v4();
  if (is_ethernet(datagram) && is_v4) {
    wire::IpFrame frame;
    frame.source = datagram.source;
    frame.destination = datagram.destination;
    frame.traffic_class = datagram.traffic_class;
    frame.hop_limit = datagram.hop_limit;
    wire::write_ipv4_in_grh(frame, sealed, bytes.data());
    return bytes;
  }
  wire::Grh grh;
  grh.traffic_class = datagram.traffic_class;
  grh.flow_label = datagram.flow_label;
  if (first_word) grh.take_first_word(*first_word);
  grh.hop_limit = datagram.hop_limit;
  grh.payload_length = static_cast<std::uint16_t>(sealed);
  if (is_ethernet(datagram)) {
    grh.next_header = wire::Grh::kNextHeaderUdp;
    grh.payload_length = static_cast<std::uint16_t>(sealed + wire::kUdpHeaderSize);
  }
  grh.source = datagram.source_gid;
  grh.destination = datagram.destination_gid;
  grh.write_to(bytes.data());
  return bytes;
}

}  // namespace

// The first 40 bytes of a UD receive belong to the GRH; where an IPv4 header came, that is the last
// of it.
void Responder::handle_ud(const wire::PacketView& packet, const wire::RxDatagram& datagram) {
  const wire::Deth deth = packet.deth();
  if (deth.qkey != endpoint_.qkey) {
    endpoint_.drops->count(DropReason::kBadQkey);
    queue::explain(endpoint_,
                   "a datagram of QPN 0x%06x was dropped: its Q_Key 0x%08x is not 0x%08x, this "
                   "queue pair's: the sender's wr.ud.remote_qkey must be that",
                   deth.source_qp.value(), deth.qkey, endpoint_.qkey);
    return;
  }
  std::span<const std::uint8_t> payload = packet.payload;
  std::optional<std::uint32_t> grh_word;
  if (!is_ethernet(datagram) && (deth.reserved & wire::Deth::kGrhWord) != 0 &&
      payload.size() >= wire::Deth::kGrhWordSize) {
    grh_word = wire::load_be32(payload.data());
    payload = payload.subspan(wire::Deth::kGrhWordSize);
  }
  if (payload.size() > endpoint_.mtu) {
    endpoint_.drops->count(DropReason::kMalformed);
    return;
  }
  if (!take_receive(packet, {})) {
    endpoint_.drops->count(DropReason::kNoReceive);
    return;
  }
  if (payload.size() + wire::Grh::kSize > receive_->capacity) {
    queue::blame(endpoint_,
                 "a datagram of %zu bytes and the 40 of its GRH exceed the %llu bytes "
                 "of the receive with wr_id %llu",
                 payload.size(), static_cast<unsigned long long>(receive_->capacity),
                 static_cast<unsigned long long>(receive_->id));
    fail_receive(Status::kLocalLength, endpoint_.reason.text());
    endpoint_.fail(std::nullopt);
    return;
  }
  const GrhBytes header = datagram.has_grh ? grh_of(datagram, grh_word) : GrhBytes{};
  if (!fill_receive(Payload(header)) || !fill_receive(Payload(payload))) return;
  queue::Completion c;
  c.id = receive_->id;
  c.opcode = CompletionOpcode::kReceive;
  c.byte_length = static_cast<std::uint32_t>(arrived_);
  c.qpn = endpoint_.number.value();
  c.source_qpn = deth.source_qp.value();
  c.source_lid = datagram.source_lid;
  c.service_level = is_ethernet(datagram)
                        ? (datagram.source.is_v4() ? kOfUdpIpv4 : kOfUdpIpv6)
                        : static_cast<std::uint8_t>(deth.reserved & wire::Deth::kServiceLevel);
  if (datagram.has_grh) c.flags |= queue::kHasGrh;
  if (packet.row->immediate) {
    c.flags |= queue::kHasImmediate;
    c.immediate = packet.immediate().data;
  }
  note_slot(c);
  receive_active_ = false;
  endpoint_.port->received.sends.add();
  endpoint_.counters.bytes_received.add(payload.size());
  if (!receive_cq()->push(c, packet.bth.solicited)) endpoint_.fail_for_want_of_room();
}

}  // namespace verbena::responder
