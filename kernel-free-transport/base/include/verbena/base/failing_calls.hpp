// SPDX-License-Identifier: BSD-2-Clause
// The functions of libibverbs and librdmacm that can be made to fail, and with what.
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
// With blanks between them.
std::string names_of_errors();

std::span<const std::string_view> functions_that_can_fail();
// The same name, which lives for ever; empty: it is none of them.
std::string_view function_that_can_fail(std::string_view name);

}  // namespace verbena
