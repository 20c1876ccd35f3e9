// SPDX-License-Identifier: BSD-2-Clause
#include <cerrno>
#include <utility>

#include "attribute_checks.hpp"
#include "transition_table.hpp"
#include "verbena/qp/attributes.hpp"

namespace verbena::qp {
namespace {

// One attempt to modify, for the checks and their explanations.
struct Attempt {
  Transport transport;
  State from;
  State to;
  std::uint32_t mask;

  const TransitionRule& rule() const { return transition_rule(transport, from, to); }
};

// Returns text like "an RC queue pair".
std::string kind(Transport transport) {
  const std::string name = to_string(transport);
  return (name[0] == 'U' ? "a " : "an ") + name + " queue pair";
}

std::string arrow(State from, State to) {
  return std::string(to_string(from)) + "->" + to_string(to);
}

std::string subject(const Attempt& attempt) {
  return "ibv_modify_qp " + arrow(attempt.from, attempt.to) + " of " + kind(attempt.transport);
}

Refused refuse(std::string reason) { return {EINVAL, std::move(reason)}; }

// Returns text like "INIT, RESET or ERR": the states that this transport may enter from here.
std::string targets(Transport transport, State from) {
  std::string text;
  std::string last;
  for (std::size_t to = 0; to < kStates; ++to) {
    if (!transition_rule(transport, from, static_cast<State>(to)).legal) continue;
    if (!last.empty()) text += (text.empty() ? "" : ", ") + last;
    last = to_string(static_cast<State>(to));
  }
  return text + " or " + last;
}

// Says in which transition this transport takes an attribute that was refused here.
std::string where_taken(Transport transport, std::uint32_t bit) {
  for (std::size_t from = 0; from < kStates; ++from) {
    for (std::size_t to = 0; to < kStates; ++to) {
      const State a = static_cast<State>(from);
      const State b = static_cast<State>(to);
      const TransitionRule& rule = transition_rule(transport, a, b);
      if (((rule.required | rule.optional) & bit) != 0) {
        return mask_names(bit) + " is taken by " + arrow(a, b);
      }
    }
  }
  if (bit == kMaskCapabilities) return "queues keep the size they were created with";
  return kind(transport) + " has no use for " + mask_names(bit);
}

Refused no_such_transition(const Attempt& attempt) {
  if ((attempt.mask & kMaskState) == 0) {
    return refuse("ibv_modify_qp of " + kind(attempt.transport) + " in " + to_string(attempt.from) +
                  " without IBV_QP_STATE: in that state attributes change only on the way to " +
                  targets(attempt.transport, attempt.from));
  }
  return refuse(subject(attempt) + " is not a transition: from " + to_string(attempt.from) +
                " it may go to " + targets(attempt.transport, attempt.from));
}

Refused missing_attributes(const Attempt& attempt) {
  const std::uint32_t required = attempt.rule().required;
  return refuse(subject(attempt) + " needs " + mask_names(required) + "; attr_mask lacks " +
                mask_names(required & ~attempt.mask));
}

Refused excess_attributes(const Attempt& attempt) {
  const std::uint32_t takes = attempt.rule().required | attempt.rule().optional;
  const std::uint32_t excess = attempt.mask & ~(takes | kMaskState);
  const std::uint32_t lowest = excess & (~excess + 1);
  return refuse(subject(attempt) + " does not take " + mask_names(excess) + "; it takes " +
                (takes == 0 ? "only IBV_QP_STATE" : mask_names(takes)) + ", and " +
                where_taken(attempt.transport, lowest));
}

std::optional<Refused> check_mask(const Attempt& attempt) {
  const TransitionRule& rule = attempt.rule();
  if (!rule.legal) return no_such_transition(attempt);
  if ((rule.required & ~attempt.mask) != 0) return missing_attributes(attempt);
  if ((attempt.mask & ~(rule.required | rule.optional | kMaskState)) != 0) {
    return excess_attributes(attempt);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refused> check_transition(Transport transport, const Attributes& current,
                                        const Attributes& wanted, std::uint32_t mask,
                                        const TransitionLimits& limits) {
  if ((mask & ~kKnownMask) != 0) {
    return refuse("ibv_modify_qp of " + kind(transport) + ": attr_mask has bits " +
                  mask_names(mask & ~kKnownMask) + " that name no attribute of ibv_qp_attr");
  }
  if ((mask & kMaskState) != 0 && wanted.state > State::kError) {
    return refuse("ibv_modify_qp of " + kind(transport) + ": qp_state is " +
                  std::to_string(static_cast<unsigned>(wanted.state)) +
                  "; expected is a value from IBV_QPS_RESET (0) to IBV_QPS_ERR (6)");
  }
  const State to = (mask & kMaskState) != 0 ? wanted.state : current.state;
  const Attempt attempt{transport, current.state, to, mask};
  if (auto refused = check_mask(attempt)) return refused;
  if ((mask & kMaskCurrentState) != 0 && wanted.current_state != current.state) {
    return refuse(subject(attempt) + ": IBV_QP_CUR_STATE says cur_qp_state " +
                  to_string(wanted.current_state) + ", but the queue pair is in " +
                  to_string(current.state));
  }
  if (auto wrong = check_values(wanted, mask, limits)) {
    return refuse(subject(attempt) + ": " + *wrong);
  }
  return std::nullopt;
}

}  // namespace verbena::qp
