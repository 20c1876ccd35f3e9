// SPDX-License-Identifier: BSD-2-Clause
// Events in words.
#pragma once

#include <string>

namespace verbena::cli {

// `line`: the event as JSON.
std::string text_of_event(const std::string& line);
// The last one that an emulator tells.
bool is_end_of_emulator(const std::string& line);

}  // namespace verbena::cli
