// SPDX-License-Identifier: BSD-2-Clause
// Translates between the structures of <rdma/rdma_user_cm.h> and the plain values of the rdma_cm
// layer. Private to the codec.
#pragma once

#include <rdma/rdma_user_cm.h>

#include "verbena/cm/rdma_types.hpp"

namespace verbena::cm::ucma {

ConnParam from_abi(const rdma_ucm_conn_param& abi);
inline Ece from_abi(const rdma_ucm_ece& abi) { return {abi.vendor_id, abi.attr_mod}; }

rdma_ucm_event_resp to_abi(const RdmaEvent& event);
ib_uverbs_qp_attr to_abi(const QpAttr& attr);
ib_user_path_rec to_user_path(const PathRecord& path);
// Returns the record that a subnet administrator would send (IBTA Vol 1, 15.2.5.16), with the flags
// of a path that serves all purposes.
ib_path_rec_data to_path_data(const PathRecord& path);

// Return the addresses of an ID: as sockaddr_in6 (QUERY_ROUTE), as sockaddr_storage (QUERY ADDR),
// and as GIDs in sockaddr_ib (QUERY GID).
rdma_ucm_query_route_resp to_route_response(const RouteInfo& info);
rdma_ucm_query_addr_resp to_addr_response(const RouteInfo& info);
rdma_ucm_query_addr_resp to_gid_response(const RouteInfo& info);

}  // namespace verbena::cm::ucma
