// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/responder/datagrams.hpp"

#include <array>
#include <optional>
#include <span>

#include "verbena/wire/bytes.hpp"
#include "verbena/wire/grh.hpp"
#include "verbena/wire/ip_frame.hpp"

namespace verbena::responder {

namespace {

// What programs on Ethernet find in a completion's service level, as on mlx5 adapters: that there
// was a UDP header, and behind which kind of IP header.
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
  grh.hop_limit = datagram.hop_limit;
  grh.payload_length = static_cast<std::uint16_t>(sealed);
  if (first_word) {
    grh.take_first_word(*first_word);
    grh.payload_length -= wire::Deth::kGrhWordSize;
  }
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

// The first 40 bytes of a UD receive belong to the GRH. If there was an IPv4 header, it is at the
// end of them.
void take_datagram(queue::Endpoint& endpoint, ReceiveInUse& receive, const wire::PacketView& packet,
                   const wire::RxDatagram& datagram, std::optional<ReceiveInUse::Failed>& failed) {
  const auto drop = [&endpoint](DropReason reason) { endpoint.drops->count(reason); };
  const wire::Deth deth = packet.deth();
  if (deth.qkey != endpoint.qkey) {
    queue::explain(endpoint,
                   "a datagram of QPN 0x%06x was dropped: its Q_Key 0x%08x is not 0x%08x, this "
                   "queue pair's: the sender's wr.ud.remote_qkey must be that",
                   deth.source_qp.value(), deth.qkey, endpoint.qkey);
    return drop(DropReason::kBadQkey);
  }
  std::span<const std::uint8_t> payload = packet.payload;
  std::optional<std::uint32_t> grh_word;
  if (!is_ethernet(datagram) && (deth.reserved & wire::Deth::kGrhWord) != 0 &&
      payload.size() >= wire::Deth::kGrhWordSize) {
    grh_word = wire::load_be32(payload.data());
    payload = payload.subspan(wire::Deth::kGrhWordSize);
  }
  if (payload.size() > endpoint.mtu) return drop(DropReason::kMalformed);
  if (!receive.take(packet, {})) {
    queue::explain(endpoint,
                   "a datagram of QPN 0x%06x was dropped: no receive is posted (ibv_post_recv)",
                   deth.source_qp.value());
    return drop(DropReason::kNoReceive);
  }
  if (payload.size() + wire::Grh::kSize > receive.capacity()) {
    queue::blame(endpoint,
                 "a datagram of %zu bytes and the 40 of its GRH exceed the %llu bytes "
                 "of the receive with wr_id %llu",
                 payload.size(), static_cast<unsigned long long>(receive.capacity()),
                 static_cast<unsigned long long>(receive.id()));
    receive.fail(queue::Status::kLocalLength, endpoint.reason.text());
    endpoint.fail(std::nullopt);
    return;
  }
  const GrhBytes header = datagram.has_grh ? grh_of(datagram, grh_word) : GrhBytes{};
  if (!receive.append(queue::Payload(header), failed) ||
      !receive.append(queue::Payload(payload), failed)) {
    return;
  }
  const std::uint8_t service_level =
      is_ethernet(datagram) ? (datagram.source.is_v4() ? kOfUdpIpv4 : kOfUdpIpv6)
                            : static_cast<std::uint8_t>(deth.reserved & wire::Deth::kServiceLevel);
  if (!receive.complete(packet, queue::CompletionOpcode::kReceive,
                        static_cast<std::uint32_t>(receive.filled()),
                        {deth.source_qp, datagram.source_lid, service_level, datagram.has_grh})) {
    endpoint.fail_for_want_of_room();
  }
  endpoint.port->received.sends.add();
  endpoint.counters.bytes_received.add(payload.size());
}

}  // namespace verbena::responder
