// SPDX-License-Identifier: BSD-2-Clause
// Which functions of libibverbs and librdmacm can be made to fail, and with which errors.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace verbena {

struct NamedError {
  std::string_view name;
  int value;
};

std::optional<NamedError> error_named(std::string_view name);
std::optional<NamedError> error_of_value(int value);
// Returns the names of all errors, separated by blanks.
std::string names_of_errors();

std::span<const std::string_view> functions_that_can_fail();
// Returns the name in static memory, or an empty text if no such function can be made to fail.
std::string_view function_that_can_fail(std::string_view name);

}  // namespace verbena
