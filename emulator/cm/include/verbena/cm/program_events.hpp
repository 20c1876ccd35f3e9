// SPDX-License-Identifier: BSD-2-Clause
// Turns what the agent reports, and what happens to memberships, into the events that programs
// read. The caller adds whose event it is and which state the ID then has. Pure functions, any
// thread.
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
  std::span<const std::uint8_t> private_data;  // private data of the message
  QpType qp_type = QpType::kRc;                // type of the queue pair that answers
};
ServiceRequest service_request_of(const Mad& mad);

// Makes a CONNECT_REQUEST. The user's data begins at offset `user_data` of the private data.
RdmaEvent request_event(const Mad& request, std::size_t user_data);
// Makes the event for a SIDR_REP, or for its absence. `ah` is empty if the port is gone.
RdmaEvent sidr_response_event(const CmEvent& cause, const std::optional<AhAttr>& ah);
// Makes an event of a membership in a group. The program knows it by the number `membership`.
RdmaEvent membership_event(RdmaEventType type, std::uint32_t membership, std::uint64_t uid);
// Returns nothing if programs are not told of it.
std::optional<RdmaEvent> connection_event(const CmEvent& cause);

}  // namespace verbena::cm
