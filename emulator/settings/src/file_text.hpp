// SPDX-License-Identifier: BSD-2-Clause
// What stands in a file, or why it cannot be read.
#pragma once

#include <string>

#include "verbena/control/error.hpp"

namespace verbena::settings {

control::Outcome<std::string> text_of_file(const std::string& path);

}  // namespace verbena::settings
