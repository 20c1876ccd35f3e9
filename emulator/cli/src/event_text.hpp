// SPDX-License-Identifier: BSD-2-Clause
// Puts events into words.
#pragma once

#include <string>

namespace verbena::cli {

// `line` is the event as JSON.
std::string text_of_event(const std::string& line);
// Returns true for the last event that an emulator tells.
bool is_end_of_emulator(const std::string& line);

}  // namespace verbena::cli
