// SPDX-License-Identifier: BSD-2-Clause
// Parses any line. It is a rule, or is refused with one sentence. A rule's text parses to it again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "verbena/base/check.hpp"
#include "verbena/fault/rule.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbena::fault;
  const auto rule = parse_rule({reinterpret_cast<const char*>(data), size});
  if (!rule) {
    VERBENA_CHECK(!rule.error().empty());
    return 0;
  }
  const std::string text = to_string(*rule);
  const auto again = parse_rule(text);
  VERBENA_CHECK(again && *again == *rule && to_string(*again) == text);
  return 0;
}
