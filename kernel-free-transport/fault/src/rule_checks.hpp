// SPDX-License-Identifier: BSD-2-Clause
// Finds conditions that contradict each other or the action.
#pragma once

#include <string>

#include "verbena/fault/rule.hpp"

namespace verbena::fault {

// Says whether packets with this opcode have what the rule's action changes.
bool has_what_it_changes(const Rule& rule, const wire::OpcodeRow& row);

// Returns why the rule can never fire. Empty: it may.
std::string why_it_never_fires(const Rule& rule);

}  // namespace verbena::fault
