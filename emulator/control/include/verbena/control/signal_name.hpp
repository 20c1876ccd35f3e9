// SPDX-License-Identifier: BSD-2-Clause
// The names of signals, as C programs write them. Pure.
#pragma once

#include <string_view>

namespace verbena::control {

// Returns "SIGKILL" for 9; empty: there is no such signal, or it has no name.
std::string_view signal_name(int number) noexcept;

}  // namespace verbena::control
