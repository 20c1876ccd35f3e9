// SPDX-License-Identifier: BSD-2-Clause
// Verbs that fail because somebody asked for it (verbena/control/planned_failures.hpp). A verb that
// nobody named is not in the least slower.
#pragma once

#include "verbena/abi/ops.hpp"

namespace verbena::provider {

// Puts a failing verb before each that is named. Throws std::invalid_argument with what is wrong
// in the list.
void plan_failures(abi::Ops& ops, const char* list);

// ibv_open_device is no operation of a device: the errno with which this call of it fails, or 0.
int planned_failure_of_opening() noexcept;

}  // namespace verbena::provider
