// SPDX-License-Identifier: BSD-2-Clause
// Verbs that fail where a rule of scripted faults says so (fail=). A verb that no rule names is not
// slowed down.
#pragma once

#include "verbena/abi/ops.hpp"
#include "verbena/context/failing_calls.hpp"

namespace verbena::provider {

// Called once, at load: notes the functions that a verb calls if it does not fail.
void keep_unruled(const abi::Ops& ops);
// Returns `ops` with a check before each verb that a rule names.
abi::Ops with_rules(abi::Ops ops, const FailingCalls& calls);

}  // namespace verbena::provider
