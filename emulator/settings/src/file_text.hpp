// SPDX-License-Identifier: BSD-2-Clause
// Reads the text of a file, or says why it cannot be read.
#pragma once

#include <string>

#include "verbena/control/error.hpp"

namespace verbena::settings {

control::Outcome<std::string> text_of_file(const std::string& path);

}  // namespace verbena::settings
