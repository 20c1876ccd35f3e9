// SPDX-License-Identifier: BSD-2-Clause
// What the agent reports, and what becomes of memberships, as the events that programs read. Whose
// event it is, and which state the ID has afterwards, the caller says. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "verbena/cm/event.hpp"
#include "verbena/cm/rdma_types.hpp"

namespace verbena::cm {

// What a REQ and a SIDR_REQ have in common.
struct ServiceRequest {
  std::uint64_t service_id = 0;
  std::span<const std::uint8_t> private_data;  // of the message
  QpType qp_type = QpType::kRc;                // that answers it
};
ServiceRequest service_request_of(const Mad& mad);

// A CONNECT_REQUEST. The user's data begins at `user_data` of the private data.
RdmaEvent request_event(const Mad& request, std::size_t user_data);
// The answer to a SIDR_REQ, or that there is none. Without `ah` the port is gone.
RdmaEvent sidr_response_event(const CmEvent& cause, const std::optional<AhAttr>& ah);
// Of a membership in a group, by which the program knows it.
RdmaEvent membership_event(RdmaEventType type, std::uint32_t membership, std::uint64_t uid);
// Nothing for what no program hears of.
std::optional<RdmaEvent> connection_event(const CmEvent& cause);

}  // namespace verbena::cm
