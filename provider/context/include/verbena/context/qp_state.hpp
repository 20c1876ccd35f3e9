// SPDX-License-Identifier: BSD-2-Clause
// The attributes of a queue pair, for the verbs and for handles in other processes.
#pragma once

#include <infiniband/verbs.h>

#include <optional>

#include "verbena/context/context.hpp"
#include "verbena/objects/objects.hpp"
#include "verbena/qp/attributes.hpp"

namespace verbena::provider {

// Throws VerbRefused, after an explanation, if an attribute has a value that the engine cannot
// hold.
void check_values(const ibv_qp_attr& attr, unsigned mask);
// Does what ibv_modify_qp does, with checked values. A refusal is already explained.
std::optional<qp::Refused> modify_state(Qp& qp, const ibv_qp_attr& attr, unsigned mask,
                                        Port::MayAsk may_ask);
// Does what ibv_query_qp does.
void query_state(const Qp& qp, ibv_qp_attr& attr);

}  // namespace verbena::provider
