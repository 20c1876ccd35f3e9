// SPDX-License-Identifier: BSD-2-Clause
// An rdma_cm ID in the words of `verbena status`. Pure.
#pragma once

#include "verbena/cm/connection.hpp"
#include "verbena/cm/rdma_id.hpp"
#include "verbena/fabric/extension.hpp"

namespace verbena::cm_service {

// Without its owner, device and events, which the ID does not know. `connection`: null if it has
// none.
fabric::CmIdStatus status_of(const cm::RdmaId& id, const cm::Connection* connection);

}  // namespace verbena::cm_service
