// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/control/planned_failures.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>

#include "verbena/base/failing_calls.hpp"

namespace verbena::control {
namespace {

// Returns nothing if the digits are not the number of a call.
std::optional<std::uint64_t> number_in(std::string_view digits) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number == 0) {
    return std::nullopt;
  }
  return number;
}

Outcome<PlannedFailure> parse_item(std::string_view item) {
  const auto wrong = [item](const std::string& what) {
    return fail(EINVAL, std::string(item) + ": " + what);
  };
  const std::size_t equals = item.find('=');
  if (equals == item.npos) return wrong("write FUNCTION=ERROR, as ibv_reg_mr=ENOMEM");
  PlannedFailure planned;
  std::string_view error = item.substr(equals + 1);
  if (const std::size_t at = error.find('@'); at != error.npos) {
    std::string_view call = error.substr(at + 1);
    error = error.substr(0, at);
    const bool onwards = call.ends_with('+');
    if (onwards) call.remove_suffix(1);
    const auto number = number_in(call);
    if (!number) return wrong("behind the @ belongs the number of a call, the first is 1");
    planned.first = *number;
    if (!onwards) planned.last = *number;
  }
  const auto known = error_named(error);
  if (!known) return wrong("the error is none of " + names_of_errors());
  planned.error_name = known->name;
  planned.error = known->value;
  planned.function = function_that_can_fail(item.substr(0, equals));
  if (planned.function.empty()) {
    return wrong(
        "no function of that name can be made to fail; it is one of libibverbs, as "
        "ibv_create_qp or ibv_create_qp_ex, or of librdmacm, as rdma_connect");
  }
  return planned;
}

}  // namespace

Outcome<std::vector<PlannedFailure>> parse_planned_failures(std::string_view list) {
  std::vector<PlannedFailure> all;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (comma != 0) {
      auto planned = parse_item(list.substr(0, comma));
      if (!planned) return Failure<Error>{planned.error()};
      all.push_back(*planned);
    }
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return all;
}

}  // namespace verbena::control
