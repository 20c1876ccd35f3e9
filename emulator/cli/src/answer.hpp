// SPDX-License-Identifier: BSD-2-Clause
// What commands say to programs with --json: one object in one line of the standard output, also
// when they fail (share/commands.schema.json). What they say to people on the standard error output
// stays the same.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "command.hpp"

namespace CLI {
class Option;
}

namespace verbena::cli {

// Returns true if a command line asks for JSON. It is known before the line is parsed, because the
// line may be wrong.
bool asks_for_json(int argc, char** argv);

// Declares --json.
CLI::Option* add_json_option(CLI::App& command, Context& context);

// Prints the command's name and these members.
void print_answer(Context& context, const nlohmann::ordered_json& members);

// Prints the answer of a command that has failed: its name, these members, its last complaint and
// its exit code.
void print_failure(Context& context, nlohmann::ordered_json members);

}  // namespace verbena::cli
