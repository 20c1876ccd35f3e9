// SPDX-License-Identifier: BSD-2-Clause
#include "fault_changes.hpp"

#include <algorithm>
#include <cerrno>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "journal_json.hpp"

namespace verbena::daemon {

using control::Incoming;

namespace {

// Far more than `verbena fault` takes. Two such delays and the time of day still fit into a TimeNs.
constexpr TimeNs kDelayMostNs = TimeNs{1} << 60;

}  // namespace

// Returns a seed that is in force already, so that one seed repeats all faults. If there is none,
// returns a new one of 32 bits: it is easy to write down and as good as a longer one.
std::uint64_t FaultChanges::seed_of_new_ones() const {
  if (const auto seed = fabric_.rules().seed()) return *seed;
  for (const auto& port : fabric_.ports()) {
    const std::vector<control::FaultSpec> faults = port->faults().in_force();
    if (!faults.empty()) return faults.front().seed;
  }
  return std::random_device{}();
}

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

// Carries a change out on copies of the tables, so that a refused one changes nothing.
void FaultChanges::apply(Session& session, std::uint32_t sequence,
                         const control::ChangeFault& change) {
  const std::uint64_t fresh = seed_of_new_ones();
  const std::uint32_t ticket = clients_.next_ticket();
  fabric::Seeds seeds;
  fabric::RuleTable rules = fabric_.rules();
  if (const auto refused = change_rules(rules, change, fresh, seeds)) {
    return session.refuse(sequence, *refused);
  }
  const bool is_of_rules_alone =
      !change.rules.empty() && (change.named & ~std::uint32_t{control::kFaultSeed}) == 0;
  const bool changes_faults = !is_of_rules_alone && (change.clear || change.named != 0);
  std::vector<std::pair<fabric::Port*, fabric::FaultTable>> tables;
  std::optional<control::Error> nothing_there;  // on a device; others may have what is changed
  for (const auto& port : fabric_.ports()) {
    if (!change.device.empty() && port->info().name != change.device) continue;
    if (!changes_faults) continue;
    fabric::FaultTable table = port->faults();
    const auto changed = table.change(change, fresh);
    if (!changed && changed.error().code != ENOENT) {
      return session.refuse(sequence, changed.error());
    }
    if (!changed) {
      nothing_there = changed.error();
      continue;
    }
    seeds.insert(changed->begin(), changed->end());
    tables.emplace_back(port.get(), std::move(table));
  }
  if (nothing_there && seeds.empty()) return session.refuse(sequence, *nothing_there);
  fabric_.rules() = std::move(rules);
  for (auto& [port, table] : tables) port->faults() = std::move(table);
  control::FaultChanged answer;
  answer.has_seed = seeds.size() == 1;
  if (answer.has_seed) answer.seed = *seeds.begin();
  journal_.note(json_of_fault(change, answer));
  on_changed_();
  // Rules may be about any device, so all contexts are told. A context that knows them already goes
  // on as before.
  for (const auto& port : fabric_.ports()) {
    port->apply_own_faults();
    tell_contexts(*port, ticket);
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

// Adds rules, removes them, or gives them another seed if the change is about all faults. Returns
// what is wrong, if anything is.
std::optional<control::Error> FaultChanges::change_rules(fabric::RuleTable& rules,
                                                         const control::ChangeFault& change,
                                                         std::uint64_t fresh_seed,
                                                         fabric::Seeds& seeds) const {
  if (change.clear && !change.rules.empty()) {
    const auto removed = rules.remove(change.rules);
    return removed ? std::nullopt : std::optional(removed.error());
  }
  if (change.clear) {
    if (change.qpn == 0) rules.clear(change.data, change.cm, change.device);
    return std::nullopt;
  }
  const bool names_seed = (change.named & control::kFaultSeed) != 0;
  const std::optional<std::uint64_t> seed =
      names_seed ? std::optional(change.seed) : std::optional<std::uint64_t>();
  const std::uint64_t of_new_ones = seed.value_or(rules.seed().value_or(fresh_seed));
  for (const std::string& line : change.rules) {
    const auto rule = fault::parse_rule(line);
    if (!rule) return control::Error{EINVAL, rule.error()};
    if (!rule->device.empty() && fabric_.find(rule->device) == nullptr) {
      return fabric_.no_such_device(rule->device);
    }
    if (rule->needs_seed()) seeds.insert(of_new_ones);
  }
  if (const auto added = rules.add(change.rules, seed, fresh_seed); !added) return added.error();
  const bool is_for_all = change.device.empty() && change.qpn == 0 && change.data && change.cm;
  if (is_for_all && change.rules.empty() && change.named == control::kFaultSeed &&
      rules.set_seed(change.seed)) {
    seeds.insert(change.seed);
  }
  return std::nullopt;
}

void FaultChanges::tell_contexts(const fabric::Port& port, std::uint32_t ticket) {
  const std::string& name = port.info().name;
  clients_.tell_contexts(
      name, control::SetFault{name, port.faults().in_force(), ticket, fabric_.rules().in_force()});
}

// A later queue pair of this number must not have the fault. Nobody awaits that it is in force.
void FaultChanges::on_queue_pair_gone(const Session& context, const Incoming& in) {
  const auto gone = control::decode<control::QueuePairGone>(in.payload);
  if (!gone || !context.context || !context.context->has_slot(Qpn(gone->qpn).slot())) return;
  fabric::Port& port = *context.context->port;
  if (port.faults().end_queue_pair(gone->qpn)) tell_contexts(port, clients_.next_ticket());
}

void FaultChanges::on_in_force(const Session& context, const Incoming& in) {
  const auto told = control::decode<control::FaultsInForce>(in.payload);
  if (told) orders_.on_faults_in_force(context, told->ticket);
}

}  // namespace verbena::daemon
