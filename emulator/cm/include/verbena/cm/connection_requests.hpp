// SPDX-License-Identifier: BSD-2-Clause
// Makes what an ID sends to connect (REQ, SIDR_REQ) and to accept (REP, SIDR_REP). Returns nothing
// if the private data does not fit. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <optional>

#include "verbena/cm/ports.hpp"
#include "verbena/cm/rdma_id.hpp"
#include "verbena/cm/rep.hpp"
#include "verbena/cm/req.hpp"
#include "verbena/cm/sidr.hpp"

namespace verbena::cm {

// Returns where the user's data begins in the private data of a request from or to this address:
// behind the IP addresses, which AF_IB does not send.
inline std::size_t user_data_offset(const SocketAddress& source) {
  return source.family == Family::kIb ? 0 : IpHeader::kSize;
}

std::optional<Req> req_of(const RdmaId& id, const PortInfo& port, const PathRecord& path,
                          const ConnParam& param, const Ece& ece);
std::optional<SidrReq> sidr_req_of(const RdmaId& id, const PortInfo& port, const ConnParam& param);
std::optional<Rep> rep_of(const RdmaId& id, const PortInfo& port, const ConnParam& param,
                          const Ece& ece);
std::optional<SidrRep> sidr_rep_of(const RdmaId& id, const ConnParam& param, const Ece& ece);

}  // namespace verbena::cm
