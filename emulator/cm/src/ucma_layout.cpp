// SPDX-License-Identifier: BSD-2-Clause
#include "ucma_layout.hpp"

#include <endian.h>

#include <cstring>

#include "verbena/cm/field.hpp"

namespace verbena::cm::ucma {
namespace {

void copy_gid(std::uint8_t* out, const Gid& gid) {
  std::memcpy(out, gid.bytes.data(), gid.bytes.size());
}

ib_uverbs_ah_attr to_abi(const AhAttr& ah) {
  ib_uverbs_ah_attr abi{};
  copy_gid(abi.grh.dgid, ah.dgid);
  abi.grh.flow_label = ah.flow_label;
  abi.grh.sgid_index = ah.sgid_index;
  abi.grh.hop_limit = ah.hop_limit;
  abi.grh.traffic_class = ah.traffic_class;
  abi.dlid = ah.dlid;
  abi.sl = ah.sl;
  abi.static_rate = ah.static_rate;
  abi.is_global = ah.is_global;
  abi.port_num = ah.port_num;
  return abi;
}

rdma_ucm_conn_param to_abi(const ConnParam& p) {
  rdma_ucm_conn_param abi{};
  abi.qp_num = p.qp_num;
  abi.qkey = p.qkey;
  std::memcpy(abi.private_data, p.private_data.bytes.data(), p.private_data.size);
  abi.private_data_len = p.private_data.size;
  abi.srq = p.srq;
  abi.responder_resources = p.responder_resources;
  abi.initiator_depth = p.initiator_depth;
  abi.flow_control = p.flow_control;
  abi.retry_count = p.retry_count;
  abi.rnr_retry_count = p.rnr_retry_count;
  return abi;
}

rdma_ucm_ud_param to_abi(const UdParam& p) {
  rdma_ucm_ud_param abi{};
  abi.qp_num = p.qp_num;
  abi.qkey = p.qkey;
  abi.ah_attr = to_abi(p.ah);
  std::memcpy(abi.private_data, p.private_data.bytes.data(), p.private_data.size);
  abi.private_data_len = p.private_data.size;
  return abi;
}

template <typename Storage>
std::uint16_t put_address(Storage& out, const SocketAddress& address) {
  std::uint8_t bytes[SocketAddress::kMaxSize] = {};
  const std::size_t size = address.write_to(bytes);
  static_assert(sizeof out >= 28);
  std::memcpy(&out, bytes, std::min(size, sizeof out));
  return static_cast<std::uint16_t>(size);
}

}  // namespace

ConnParam from_abi(const rdma_ucm_conn_param& abi) {
  ConnParam p;
  p.qp_num = abi.qp_num;
  p.qkey = abi.qkey;
  p.private_data.assign(std::span(abi.private_data).first(abi.private_data_len));
  p.srq = abi.srq != 0;
  p.responder_resources = abi.responder_resources;
  p.initiator_depth = abi.initiator_depth;
  p.flow_control = abi.flow_control;
  p.retry_count = abi.retry_count;
  p.rnr_retry_count = abi.rnr_retry_count;
  return p;
}

rdma_ucm_event_resp to_abi(const RdmaEvent& event) {
  rdma_ucm_event_resp abi{};
  abi.uid = event.uid;
  abi.id = event.id;
  abi.event = static_cast<std::uint32_t>(event.type);
  abi.status = static_cast<std::uint32_t>(event.status);
  if (event.type == RdmaEventType::kUser || event.type == RdmaEventType::kInternal) {
    std::memcpy(&abi.param, &event.argument, sizeof event.argument);
  } else if (const auto* ud = std::get_if<UdParam>(&event.param)) {
    abi.param.ud = to_abi(*ud);
  } else {
    abi.param.conn = to_abi(std::get<ConnParam>(event.param));
  }
  abi.ece.vendor_id = event.ece.vendor_id;
  abi.ece.attr_mod = event.ece.option;
  return abi;
}

ib_uverbs_qp_attr to_abi(const QpAttr& attr) {
  ib_uverbs_qp_attr abi{};
  abi.qp_attr_mask = attr.mask;
  abi.qp_state = attr.qp_state;
  abi.path_mtu = attr.path_mtu;
  abi.qkey = attr.qkey;
  abi.rq_psn = attr.rq_psn;
  abi.sq_psn = attr.sq_psn;
  abi.dest_qp_num = attr.dest_qp_num;
  abi.qp_access_flags = attr.access_flags;
  abi.ah_attr = to_abi(attr.ah);
  abi.pkey_index = attr.pkey_index;
  abi.max_rd_atomic = attr.max_rd_atomic;
  abi.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  abi.min_rnr_timer = attr.min_rnr_timer;
  abi.port_num = attr.port_num;
  abi.timeout = attr.timeout;
  abi.retry_cnt = attr.retry_count;
  abi.rnr_retry = attr.rnr_retry;
  return abi;
}

ib_user_path_rec to_user_path(const PathRecord& path) {
  ib_user_path_rec abi{};
  copy_gid(abi.dgid, path.dgid);
  copy_gid(abi.sgid, path.sgid);
  abi.dlid = htobe16(path.dlid);
  abi.slid = htobe16(path.slid);
  abi.flow_label = htobe32(path.flow_label);
  abi.reversible = 1;
  abi.mtu = path.mtu;
  abi.pkey = htobe16(path.pkey);
  abi.hop_limit = path.hop_limit;
  abi.traffic_class = path.traffic_class;
  abi.numb_path = 1;
  abi.sl = path.sl;
  abi.mtu_selector = abi.rate_selector = abi.packet_life_time_selector = 2;  // 2: exactly
  abi.rate = path.rate;
  abi.packet_life_time = path.packet_life_time;
  return abi;
}

ib_path_rec_data to_path_data(const PathRecord& path) {
  constexpr std::uint8_t kExactly = 2 << 6;
  std::array<std::uint8_t, 64> record{};
  const FieldWriter put(record);
  put(path.dgid, Field{"dgid", 8, 0, 128});
  put(path.sgid, Field{"sgid", 24, 0, 128});
  put(path.dlid, Field{"dlid", 40, 0, 16});
  put(path.slid, Field{"slid", 42, 0, 16});
  put(path.flow_label, Field{"flow_label", 44, 4, 20});
  put(path.hop_limit, Field{"hop_limit", 47, 0, 8});
  put(path.traffic_class, Field{"traffic_class", 48, 0, 8});
  put(std::uint8_t{0x80 | 1}, Field{"reversible_and_number", 49, 0, 8});
  put(path.pkey, Field{"pkey", 50, 0, 16});
  put(path.sl, Field{"sl", 53, 4, 4});
  put(static_cast<std::uint8_t>(kExactly | path.mtu), Field{"mtu", 54, 0, 8});
  put(static_cast<std::uint8_t>(kExactly | path.rate), Field{"rate", 55, 0, 8});
  put(static_cast<std::uint8_t>(kExactly | path.packet_life_time), Field{"life", 56, 0, 8});
  ib_path_rec_data abi{};
  abi.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
  static_assert(sizeof abi.path_rec == sizeof record);
  std::memcpy(abi.path_rec, record.data(), sizeof abi.path_rec);
  return abi;
}

rdma_ucm_query_route_resp to_route_response(const RouteInfo& info) {
  rdma_ucm_query_route_resp r{};
  put_address(r.src_addr, info.source);
  put_address(r.dst_addr, info.destination);
  r.ibdev_index = ~std::uint32_t{0};
  if (info.port == nullptr) return r;
  r.node_guid = htobe64(info.port->node_guid);
  r.port_num = 1;
  r.ibdev_index = info.port->ibdev_index;
  if (info.has_path) {
    r.ib_route[0] = to_user_path(info.path);
    r.num_paths = 1;
  } else {
    copy_gid(r.ib_route[0].sgid, info.path.sgid);
    copy_gid(r.ib_route[0].dgid, info.path.dgid);
    r.ib_route[0].pkey = htobe16(info.path.pkey);
  }
  return r;
}

rdma_ucm_query_addr_resp to_addr_response(const RouteInfo& info) {
  rdma_ucm_query_addr_resp r{};
  r.src_size = put_address(r.src_addr, info.source);
  r.dst_size = put_address(r.dst_addr, info.destination);
  r.ibdev_index = ~std::uint32_t{0};
  if (info.port == nullptr) return r;
  r.node_guid = htobe64(info.port->node_guid);
  r.port_num = 1;
  r.pkey = htobe16(info.port->pkey);
  r.ibdev_index = info.port->ibdev_index;
  return r;
}

rdma_ucm_query_addr_resp to_gid_response(const RouteInfo& info) {
  rdma_ucm_query_addr_resp r = to_addr_response(info);
  const std::uint16_t pkey = info.port == nullptr ? std::uint16_t{0} : info.port->pkey;
  r.src_addr = {};
  r.dst_addr = {};
  r.src_size =
      put_address(r.src_addr, SocketAddress::of_gid(info.path.sgid, info.source_service, pkey));
  r.dst_size = put_address(r.dst_addr,
                           SocketAddress::of_gid(info.path.dgid, info.destination_service, pkey));
  return r;
}

}  // namespace verbena::cm::ucma
