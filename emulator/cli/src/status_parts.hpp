// SPDX-License-Identifier: BSD-2-Clause
// Reads the emulator's status as it comes, one part after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "emulator.hpp"
#include "verbena/control/error.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/status_messages.hpp"
#include "waits.hpp"

namespace verbena::cli {

using TakePart = std::function<void(control::StatusPart part, const std::string& text)>;

// The emulator goes on when this process has read. `resets` is as in control::StatusQuery.
control::Outcome<control::Done> read_status(Emulator& emulator, bool resets, const TakePart& take);

struct RuleCount {
  std::string rule;
  std::uint64_t matched = 0;
  std::uint64_t fired = 0;
};
control::Outcome<std::vector<RuleCount>> read_rules(Emulator& emulator);

// Returns what its programs wait for, from two looks a moment apart.
control::Outcome<std::vector<Wait>> read_waits(Emulator& emulator);

}  // namespace verbena::cli
