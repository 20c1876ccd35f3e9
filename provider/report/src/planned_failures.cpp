// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/report/planned_failures.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "verbena/control/planned_failures.hpp"
#include "verbena/report/explain.hpp"
#include "verbena/report/failed_answer.hpp"

namespace verbena::provider {
namespace {

// The failures that the user asked for, for one verb.
struct Plan {
  control::PlannedFailure asked;
  control::PlannedCalls calls;

  int next() noexcept {
    if (asked.error == 0) return 0;
    const auto call = calls.next(asked);
    if (!call) return 0;
    return refusal(asked.error, "%s: call %llu of this process fails with %s, as VERBENA_FAIL asks",
                   asked.function.data(), static_cast<unsigned long long>(*call),
                   asked.error_name.data());
  }
};

Plan opening;  // ibv_open_device

template <auto Member, typename F>
struct Failing;
template <auto Member, typename Result, typename... Arguments>
struct Failing<Member, Result (*)(Arguments...) noexcept> {
  static inline Plan plan;
  static inline Result (*original)(Arguments...) noexcept = nullptr;

  static Result call(Arguments... arguments) noexcept {
    const int error = plan.next();
    return error != 0 ? failed_answer<Result>(error, arguments...) : original(arguments...);
  }
};

template <auto Member>
void put_before(abi::Ops& ops, const control::PlannedFailure& asked) {
  using F = std::remove_reference_t<decltype(ops.*Member)>;
  using Wrapped = Failing<Member, F>;
  Wrapped::plan.asked = asked;
  if (ops.*Member == &Wrapped::call) return;
  Wrapped::original = ops.*Member;
  ops.*Member = &Wrapped::call;
}

bool plan_for(abi::Ops& ops, const control::PlannedFailure& asked) {
#define VERBENA_PLAN(name, result, arguments, since, until)      \
  if constexpr (can_fail<result>(#name)) {                       \
    if (asked.function == "ibv_" #name && ops.name != nullptr) { \
      return put_before<&abi::Ops::name>(ops, asked), true;      \
    }                                                            \
  }
  VERBENA_VERBS_OPS(VERBENA_PLAN)
#undef VERBENA_PLAN
  return false;
}

}  // namespace

int planned_failure_of_opening() noexcept { return opening.next(); }

void plan_failures(abi::Ops& ops, const char* list) {
  const auto all = control::parse_planned_failures(list);
  if (!all) throw std::invalid_argument("VERBENA_FAIL: " + all.error().text);
  for (const control::PlannedFailure& asked : *all) {
    if (asked.is_of_librdmacm()) continue;  // the preload library handles it
    if (asked.function == "ibv_open_device") {
      opening.asked = asked;
    } else if (!plan_for(ops, asked)) {
      throw std::invalid_argument("VERBENA_FAIL: " + std::string(asked.function) +
                                  " is not offered here");
    }
  }
}

}  // namespace verbena::provider
