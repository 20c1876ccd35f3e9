// SPDX-License-Identifier: BSD-2-Clause
// The report that `verbena status` shows of an engine.
#pragma once

#include "verbena/control/messages.hpp"
#include "verbena/control/status_messages.hpp"
#include "verbena/device/device.hpp"
#include "verbena/link/peer_link.hpp"
#include "verbena/objects/exports.hpp"

namespace verbena::provider {

// Returns the value of ibv_qp_type.
std::uint8_t verbs_type(Transport transport);

// Returns the objects that are asked for, without the counts of objects. `queues` is null if the
// engine has queue pairs only.
control::StatusReport status_report(const control::StatusRequest& request, device::Device& device,
                                    link::PeerLink& peers, Exports* queues);

}  // namespace verbena::provider
