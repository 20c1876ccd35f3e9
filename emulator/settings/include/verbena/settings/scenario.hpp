// SPDX-License-Identifier: BSD-2-Clause
// A scenario of scripted faults, from a TOML file, as a plain value.
//
//   seed = 7                 # for rules with chances
//   [[rule]]                 # any number of them; fault/rule.hpp has the words
//   action = "drop"
//   opcode = "SEND"
//   nth = 3
//   qp = "server:1"
//   [[event]]                # means the rule `kill program=client after=30ms`
//   at = "30ms"
//   do = "kill"
//   program = "client"
//   [[event]]                # means the rule `fail=ENOMEM call=ibv_reg_mr nth=2`
//   do = "fail=ENOMEM"
//   call = "ibv_reg_mr"
//   nth = 2
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verbena/control/error.hpp"
#include "verbena/fault/rule.hpp"

namespace verbena::settings {

struct Scenario {
  std::optional<std::uint64_t> seed;
  std::vector<fault::Rule> rules;
};

// Parses a scenario. `origin` names the text in errors, which say the line. An unknown key is an
// error.
control::Outcome<Scenario> parse_scenario(std::string_view text, const std::string& origin);
control::Outcome<Scenario> load_scenario(const std::string& path);

}  // namespace verbena::settings
