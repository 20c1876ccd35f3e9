// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/address_vector.hpp"

#include <cstring>
#include <optional>

#include "verbena/control/address_plan.hpp"

namespace verbena::provider {

qp::PathAttributes path_of(const ibv_ah_attr& ah, const AddressPlan& plan) {
  qp::PathAttributes p;
  p.is_global = ah.is_global != 0;
  p.dlid = ah.dlid;
  p.service_level = ah.sl;
  p.source_path_bits = ah.src_path_bits;
  p.static_rate = ah.static_rate;
  p.port = ah.port_num;
  std::optional<IpAddress> address;
  if (p.is_global) {
    p.remote_gid = gid_of(ah.grh.dgid);
    // The header has room for 20 bits, and adapters ignore the rest. UCX writes ~0.
    p.flow_label = ah.grh.flow_label & 0xfffff;
    p.gid_index = ah.grh.sgid_index;
    p.hop_limit = ah.grh.hop_limit;
    p.traffic_class = ah.grh.traffic_class;
    address = p.remote_gid.is_multicast() ? control::group_of_mgid(p.remote_gid, plan.subnet != 0)
                                          : plan.address_of_gid(p.remote_gid);
  }
  if (!address && plan.infiniband) address = plan.address_of_lid(p.dlid);
  p.resolved = address.has_value();
  if (address) p.destination.address = *address;
  p.destination.traffic_class = p.traffic_class;
  // Programs that know only their own subnet write 0 or 1. 64 is enough for a local address.
  p.destination.hop_limit = p.hop_limit > 1 ? p.hop_limit : 64;
  p.destination.has_grh = p.is_global;
  p.destination.flow_label = p.flow_label;
  return p;
}

ibv_ah_attr ah_attr_of(const qp::PathAttributes& p) {
  ibv_ah_attr ah{};
  ah.is_global = p.is_global ? 1 : 0;
  ah.dlid = p.dlid;
  ah.sl = p.service_level;
  ah.src_path_bits = p.source_path_bits;
  ah.static_rate = p.static_rate;
  ah.port_num = p.port;
  if (p.is_global) {
    std::memcpy(ah.grh.dgid.raw, p.remote_gid.bytes.data(), p.remote_gid.bytes.size());
    ah.grh.flow_label = p.flow_label;
    ah.grh.sgid_index = p.gid_index;
    ah.grh.hop_limit = p.hop_limit;
    ah.grh.traffic_class = p.traffic_class;
  }
  return ah;
}

}  // namespace verbena::provider
