// SPDX-License-Identifier: BSD-2-Clause
#include "rdma_cm/failing_calls.hpp"

#include <cstring>
#include <deque>
#include <new>
#include <string_view>

#include "real/settings.hpp"
#include "verbena/control/cm_functions.hpp"
#include "verbena/control/planned_failures.hpp"
#include "verbena/control/user_lines.hpp"

namespace verbena::preload::failing_calls {
namespace {

constexpr std::string_view kOpening = "rdma_create_event_channel";

struct Plan {
  control::PlannedFailure asked;
  control::PlannedCalls calls;
};

// Returns null if the list is malformed; the plugin reports what is wrong with it. The plans are
// never freed, because the program's threads may still make calls.
std::deque<Plan>* read_plans() noexcept try {
  const char* const list = setting("VERBENA_FAIL");
  if (list == nullptr) return nullptr;
  const auto all = control::parse_planned_failures(list);
  if (!all) return nullptr;
  auto* const plans = new std::deque<Plan>;
  for (const control::PlannedFailure& asked : *all) {
    if (asked.is_of_librdmacm()) plans->emplace_back().asked = asked;
  }
  return plans;
} catch (const std::bad_alloc&) {
  return nullptr;
}

bool explains() {
  const char* const log = setting("VERBENA_LOG");
  return log != nullptr && std::strstr(log, "explain") != nullptr;
}

int error_of(std::string_view function) noexcept {
  static std::deque<Plan>* const plans = read_plans();
  if (plans == nullptr || function.empty()) return 0;
  for (Plan& plan : *plans) {
    if (plan.asked.function != function) continue;
    const auto call = plan.calls.next(plan.asked);
    if (!call) continue;
    if (explains()) {
      control::tell_user("%s: call %llu of this process fails with %s, as VERBENA_FAIL asks",
                         plan.asked.function.data(), static_cast<unsigned long long>(*call),
                         plan.asked.error_name.data());
    }
    return plan.asked.error;
  }
  return 0;
}

}  // namespace

int error_of_command(std::span<const std::uint8_t> command) noexcept {
  return error_of(control::function_of_cm_command(command));
}

int error_of_opening() noexcept { return error_of(kOpening); }

}  // namespace verbena::preload::failing_calls
