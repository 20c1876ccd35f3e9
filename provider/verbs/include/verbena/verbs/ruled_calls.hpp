// SPDX-License-Identifier: BSD-2-Clause
// Verbs that fail where a rule of scripted faults says so (fail=). A verb that no rule names is not
// in the least slower.
#pragma once

#include "verbena/abi/ops.hpp"
#include "verbena/context/failing_calls.hpp"

namespace verbena::provider {

// At load, once: what those that do not fail go on to.
void keep_unruled(const abi::Ops& ops);
// With one before each verb that a rule names.
abi::Ops with_rules(abi::Ops ops, const FailingCalls& calls);

}  // namespace verbena::provider
