// SPDX-License-Identifier: BSD-2-Clause
// Verbs that fail because the user asked for it (verbena/control/planned_failures.hpp). A verb that
// the user did not name is not slowed down.
#pragma once

#include "verbena/abi/ops.hpp"

namespace verbena::provider {

// Puts a failing verb before each one that is named. Throws std::invalid_argument, which says what
// is wrong in the list.
void plan_failures(abi::Ops& ops, const char* list);

// Returns the errno with which this call of ibv_open_device fails, or 0. It is no operation of a
// device.
int planned_failure_of_opening() noexcept;

}  // namespace verbena::provider
