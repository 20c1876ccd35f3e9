// SPDX-License-Identifier: BSD-2-Clause
// Describes an rdma_cm ID in the words of `verbena status`. Pure.
#pragma once

#include "verbena/cm/connection.hpp"
#include "verbena/cm/rdma_id.hpp"
#include "verbena/cm/sidr_exchange.hpp"
#include "verbena/fabric/extension.hpp"

namespace verbena::cm_service {

// Leaves out owner, device and events, which the ID does not know. `connection`, and `exchange`
// for a UD ID, are null if the ID has none.
fabric::CmIdStatus status_of(const cm::RdmaId& id, const cm::Connection* connection,
                             const cm::SidrExchange* exchange);

}  // namespace verbena::cm_service
