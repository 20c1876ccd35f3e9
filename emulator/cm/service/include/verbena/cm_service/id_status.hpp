// SPDX-License-Identifier: BSD-2-Clause
// Describes an rdma_cm ID in the words of `verbena status`. Pure.
#pragma once

#include "verbena/cm/connection.hpp"
#include "verbena/cm/rdma_id.hpp"
#include "verbena/fabric/extension.hpp"

namespace verbena::cm_service {

// Leaves out owner, device and events, which the ID does not know. `connection` is null if it has
// none.
fabric::CmIdStatus status_of(const cm::RdmaId& id, const cm::Connection* connection);

}  // namespace verbena::cm_service
