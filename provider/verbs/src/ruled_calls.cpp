// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/verbs/ruled_calls.hpp"

#include <type_traits>
#include <utility>

#include "verbena/base/failing_calls.hpp"
#include "verbena/context/context.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/report/explain.hpp"
#include "verbena/report/failed_answer.hpp"

namespace verbena::provider {
namespace {

// Each object that a verb is called on has its context.
ibv_context* context_of(ibv_context* context) { return context; }
ibv_context* context_of(abi::PrivateMr* region) { return region->mr.context; }
template <typename Object>
ibv_context* context_of(Object* object) {
  return object->context;
}

template <typename Object>
void add_queue_pair(Object*, fault::Call&) {}
void add_queue_pair(ibv_qp* qp, fault::Call& call) {
  const Qp& object = object_of(qp);
  if (object.pair == nullptr) return;  // it belongs to another context
  const Guard guard(object.pair->lock());
  call.place = object.pair->endpoint().origin.created;
  call.qp = object.pair->number();
}

template <typename Object>
int error_of(const char* verb, Object* object) {
  fault::Call call{verb, 0, Qpn{}, link::monotonic_now_ns()};
  add_queue_pair(object, call);
  const int error = Context::of(context_of(object)).failing_calls().judge(call);
  if (error == 0) return 0;
  return refusal(error, "%s: fails with %s, as a rule (fail=) asks", verb,
                 error_of_value(error)->name.data());
}

template <auto Member, typename F>
struct Ruled;
template <auto Member, typename Result, typename Object, typename... Arguments>
struct Ruled<Member, Result (*)(Object, Arguments...) noexcept> {
  static inline const char* verb = nullptr;
  static inline Result (*original)(Object, Arguments...) noexcept = nullptr;

  static Result call(Object object, Arguments... arguments) noexcept {
    const int error = error_of(verb, object);
    return error != 0 ? failed_answer<Result>(error, object, arguments...)
                      : original(object, arguments...);
  }
};

template <auto Member>
using RuledOf = Ruled<Member, std::remove_reference_t<decltype(std::declval<abi::Ops&>().*Member)>>;

template <auto Member>
void keep(const abi::Ops& ops, const char* verb) {
  RuledOf<Member>::verb = verb;
  RuledOf<Member>::original = ops.*Member;
}

template <auto Member>
void put_before(abi::Ops& ops, const char* verb, const FailingCalls& calls) {
  if (ops.*Member != nullptr && calls.names(verb)) ops.*Member = &RuledOf<Member>::call;
}

}  // namespace

void keep_unruled(const abi::Ops& ops) {
#define VERBENA_KEEP(name, result, arguments, since, until) \
  if constexpr (can_fail<result>(#name)) keep<&abi::Ops::name>(ops, "ibv_" #name);
  VERBENA_VERBS_OPS(VERBENA_KEEP)
#undef VERBENA_KEEP
}

abi::Ops with_rules(abi::Ops ops, const FailingCalls& calls) {
#define VERBENA_RULE(name, result, arguments, since, until) \
  if constexpr (can_fail<result>(#name)) put_before<&abi::Ops::name>(ops, "ibv_" #name, calls);
  VERBENA_VERBS_OPS(VERBENA_RULE)
#undef VERBENA_RULE
  return ops;
}

}  // namespace verbena::provider
