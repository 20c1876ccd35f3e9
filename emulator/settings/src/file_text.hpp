// SPDX-License-Identifier: BSD-2-Clause
// The text of a TOML file, before it is parsed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "verbena/control/error.hpp"

namespace verbena::settings {

// Reads the text of a file, or says why it cannot be read.
control::Outcome<std::string> text_of_file(const std::string& path);

// Fails if a key has so many parts (a.b.c) that the parser, which calls itself for each of them,
// could use up the stack. `origin` is the file's name.
control::Outcome<control::Done> check_keys(std::string_view text, const std::string& origin);

}  // namespace verbena::settings
