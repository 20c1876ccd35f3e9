// SPDX-License-Identifier: BSD-2-Clause
#include "fault_changes.hpp"

#include <algorithm>
#include <cerrno>
#include <random>
#include <string>

#include "journal_json.hpp"

namespace verbena::daemon {

using control::Incoming;

namespace {

// Far more than `verbena fault` takes. Two such delays and the time of day still fit into a TimeNs.
constexpr TimeNs kDelayMostNs = TimeNs{1} << 60;

// Returns a seed of 32 bits: it is easy to write down and as good as a longer one.
std::uint64_t fresh_seed() { return std::random_device{}(); }

}  // namespace

void FaultChanges::on_request(Session& session, const Incoming& in) {
  const auto request = session.decoded<control::ChangeFault>(in);
  if (!request) return;
  if (!request->device.empty() && fabric_.find(request->device) == nullptr) {
    return session.refuse(in.header.sequence, fabric_.no_such_device(request->device));
  }
  if (std::max(request->values.delay_ns, request->values.jitter_ns) > kDelayMostNs) {
    return session.refuse(in.header.sequence, {EINVAL, "no packet can be delayed for so long"});
  }
  // A request that removes faults may name a queue pair that no longer exists.
  if (request->qpn == 0 || request->clear) {
    return apply(session, in.header.sequence, *request);
  }
  search_.begin(session, in.header.sequence, request->device, request->qpn,
                [this, sequence = in.header.sequence, request = *request](
                    Session& asker, const std::string& device) mutable {
                  request.device = device;
                  apply(asker, sequence, request);
                });
}

void FaultChanges::apply(Session& session, std::uint32_t sequence,
                         const control::ChangeFault& change) {
  const std::uint64_t fresh = fresh_seed();
  const std::uint32_t ticket = clients_.next_ticket();
  control::FaultChanged answer;
  std::optional<control::Error> refused = change_rules(change, fresh, answer);
  if (refused && !change.rules.empty()) return session.refuse(sequence, *refused);
  const bool is_of_rules_alone =
      !change.rules.empty() && (change.named & ~std::uint32_t{control::kFaultSeed}) == 0;
  const bool changes_faults = change.clear || (change.named != 0 && !is_of_rules_alone);
  for (const auto& port : fabric_.ports()) {
    if (!change.device.empty() && port->info().name != change.device) continue;
    if (!changes_faults) continue;
    const auto seed = port->faults().change(change, fresh);
    if (!seed) {
      refused = seed.error();
      continue;
    }
    answer.has_seed = answer.has_seed || seed->has_value();
    answer.seed = seed->value_or(answer.seed);
  }
  if (refused && !answer.has_seed) return session.refuse(sequence, *refused);
  journal_.note(json_of_fault(change, answer));
  on_changed_();
  // Rules may be about any device, so all contexts are told. A context that knows them already goes
  // on as before.
  for (const auto& port : fabric_.ports()) {
    const std::string& name = port->info().name;
    port->apply_own_faults();
    clients_.tell_contexts(name, control::SetFault{name, port->faults().in_force(), ticket,
                                                   fabric_.rules().in_force()});
  }
  OutstandingOrders::Order wait{
      session.id, {}, [answer, sequence](Session& asker, control::SilentProcesses silent) {
        control::FaultChanged changed = answer;
        changed.silent = std::move(silent);
        asker.send(changed, sequence);
      }};
  wait.is_of_faults = true;
  for (const auto& [key, context] : clients_.contexts()) wait.awaited.insert(context->id);
  orders_.begin(ticket, std::move(wait));
}

// Adds rules, removes them or gives them another seed. Returns what is wrong, if anything is.
std::optional<control::Error> FaultChanges::change_rules(const control::ChangeFault& change,
                                                         std::uint64_t fresh_seed,
                                                         control::FaultChanged& answer) {
  fabric::RuleTable& rules = fabric_.rules();
  if (change.clear) {
    if (change.qpn == 0) rules.clear(change.data, change.cm, change.device);
    return std::nullopt;
  }
  const bool names_seed = (change.named & control::kFaultSeed) != 0;
  const std::optional<std::uint64_t> seed =
      names_seed ? std::optional(change.seed) : std::optional<std::uint64_t>();
  for (const std::string& line : change.rules) {
    const auto rule = fault::parse_rule(line);
    if (!rule) return control::Error{EINVAL, rule.error()};
    if (!rule->device.empty() && fabric_.find(rule->device) == nullptr) {
      return fabric_.no_such_device(rule->device);
    }
    answer.has_seed = answer.has_seed || rule->needs_seed();
  }
  if (const auto added = rules.add(change.rules, seed, fresh_seed); !added) return added.error();
  if (change.rules.empty() && change.named == control::kFaultSeed) {
    answer.has_seed = rules.set_seed(change.seed);
  }
  answer.seed = rules.seed().value_or(0);
  return std::nullopt;
}

void FaultChanges::on_in_force(const Session& context, const Incoming& in) {
  const auto told = control::decode<control::FaultsInForce>(in.payload);
  if (told) orders_.on_faults_in_force(context, told->ticket);
}

}  // namespace verbena::daemon
