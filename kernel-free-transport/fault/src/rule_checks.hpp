// SPDX-License-Identifier: BSD-2-Clause
// Conditions that contradict each other, or the action.
#pragma once

#include <string>

#include "verbena/fault/rule.hpp"

namespace verbena::fault {

// Whether packets of this opcode have what the rule's action changes.
bool has_what_it_changes(const Rule& rule, const wire::OpcodeRow& row);

// Empty: it may.
std::string why_it_never_fires(const Rule& rule);

}  // namespace verbena::fault
