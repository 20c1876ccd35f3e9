// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/multicast.hpp"

#include <mutex>

#include "verbena/context/context.hpp"
#include "verbena/control/address_plan.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {

void Multicast::join(Qpn member, const Gid& mgid, std::uint16_t mlid) {
  {
    const std::lock_guard guard(context_.lock());
    // The membership is noted before the daemon sends the first packet.
    memberships_.push_back({mgid, member});
  }
  try {
    const auto done =
        context_.ask<control::Ack>(control::AttachMulticast{mgid, mlid, member.value()});
    if (!done) refuse(done.error().code, "ibv_attach_mcast: %s", done.error().text.c_str());
  } catch (...) {
    erase(member, mgid);
    throw;
  }
}

void Multicast::leave(Qpn member, const Gid& mgid, std::uint16_t mlid) {
  erase(member, mgid);
  if (context_.is_fatal()) return;
  const auto done =
      context_.ask<control::Ack>(control::DetachMulticast{mgid, mlid, member.value()});
  if (!done) refuse(done.error().code, "ibv_detach_mcast: %s", done.error().text.c_str());
}

void Multicast::erase(Qpn member, const Gid& mgid) {
  const std::lock_guard guard(context_.lock());
  std::erase_if(memberships_,
                [&](const Membership& m) { return m.mgid == mgid && m.member == member; });
}

void Multicast::on_relayed(const control::Relayed& relayed) {
  wire::RxDatagram datagram;
  datagram.bytes = relayed.packet;
  datagram.source = relayed.source;
  datagram.destination = control::group_of_mgid(relayed.mgid, relayed.source.is_v4());
  datagram.traffic_class = relayed.traffic_class;
  datagram.hop_limit = relayed.hop_limit;
  datagram.flow_label = relayed.flow_label;
  datagram.has_grh = relayed.has_grh;
  datagram.destination_gid = relayed.mgid;
  std::vector<Qpn> members;
  {
    const std::lock_guard guard(context_.lock());
    for (const Membership& m : memberships_) {
      if (m.mgid == relayed.mgid) members.push_back(m.member);
    }
  }
  device::Device& device = context_.device();
  const Guard guard(device.receive_lock());
  const TimeNs now = link::monotonic_now_ns();
  for (const Qpn member : members) device.handle_multicast(now, datagram, member);
  device.finish_receive(now, device::Acknowledge::kUnlessAnswered);
}

}  // namespace verbena::provider
