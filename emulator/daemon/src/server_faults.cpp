// SPDX-License-Identifier: BSD-2-Clause
// `verbena fault`: what it changes, whether the queue pair that it names exists, and when every
// program has it in force.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <random>

#include "journal_json.hpp"
#include "server.hpp"

namespace verbena::daemon {

using control::Incoming;

namespace {

control::Error no_such_queue_pair(std::uint32_t qpn, bool is_silent) {
  char number[16];
  std::snprintf(number, sizeof number, "0x%06x", qpn);
  if (is_silent) {
    return {ETIMEDOUT, std::string("the program that could have queue pair ") + number +
                           " does not answer (stopped, or in a debugger)"};
  }
  return {ENOENT, std::string("there is no queue pair ") + number +
                      "; `verbena status` shows those that there are"};
}

// Easy to write down, and as good as a longer one.
std::uint64_t fresh_seed() { return std::random_device{}(); }

}  // namespace

void Server::on_change_fault(Session& session, const Incoming& in) {
  const auto request = session.decoded<control::ChangeFault>(in);
  if (!request) return;
  if (!request->device.empty() && fabric_.find(request->device) == nullptr) {
    return session.refuse(in.header.sequence, fabric_.no_such_device(request->device));
  }
  // What is taken away may be of a queue pair that is no more.
  if (request->qpn == 0 || request->clear) {
    return change_faults(session, in.header.sequence, *request);
  }
  ask_for_queue_pair(session, in.header.sequence, *request);
}

void Server::change_faults(Session& session, std::uint32_t sequence,
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
  note(json_of_fault(change, answer));
  follow_rule_events();
  if (extension_ != nullptr) extension_->on_rules_changed();
  // Rules may be about any device; and who is told again what he knows goes on as before.
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

// Adds rules, or takes them away, or gives them another seed; what is wrong.
std::optional<control::Error> Server::change_rules(const control::ChangeFault& change,
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

void Server::on_faults_in_force(Session& session, const Incoming& in) {
  const auto told = control::decode<control::FaultsInForce>(in.payload);
  if (told) orders_.on_faults_in_force(session, told->ticket);
}

// Only its program knows. The number says whose it would be, on each device.
void Server::ask_for_queue_pair(Session& asker, std::uint32_t sequence,
                                const control::ChangeFault& change) {
  const bool has_asked = std::ranges::any_of(
      faults_asked_for_, [&](const auto& entry) { return entry.second.asker == asker.id; });
  if (has_asked) return asker.refuse(sequence, {EBUSY, "the question before waits for its answer"});
  const std::uint32_t slot = Qpn(change.qpn).slot();
  PendingFault pending{asker.id, sequence, change, {}, 0};
  const std::uint32_t ticket = clients_.next_ticket();
  for (const auto& [key, session] : clients_.contexts()) {
    if (!change.device.empty() && key.first->info().name != change.device) continue;
    const auto& extra = session->context->extra_slots;
    if (key.second == slot || std::ranges::count(extra, slot) != 0) {
      pending.asked.insert(session->id);
    }
  }
  if (pending.asked.empty()) {
    return asker.refuse(sequence, no_such_queue_pair(change.qpn, false));
  }
  for (const Session::Id id : pending.asked) {
    clients_.find(id)->send(control::FindQueuePair{ticket, change.qpn}, clients_.next_sequence());
  }
  pending.deadline =
      loop_.after(kStatusDeadlineNs, [this, ticket] { give_up_fault(ticket, true); });
  faults_asked_for_.emplace(ticket, std::move(pending));
}

void Server::on_queue_pair_found(Session& session, const Incoming& in) {
  const auto answer = control::decode<control::QueuePairFound>(in.payload);
  const auto found = answer ? faults_asked_for_.find(answer->ticket) : faults_asked_for_.end();
  if (found == faults_asked_for_.end() || found->second.asked.erase(session.id) == 0) return;
  if (!answer->found) {
    if (found->second.asked.empty()) give_up_fault(answer->ticket, false);
    return;
  }
  PendingFault pending = std::move(found->second);
  faults_asked_for_.erase(found);
  loop_.cancel(pending.deadline);
  Session* const asker = clients_.find(pending.asker);
  if (asker == nullptr || !session.context) return;
  pending.change.device = session.context->port->info().name;
  change_faults(*asker, pending.sequence, pending.change);
}

void Server::give_up_fault(std::uint32_t ticket, bool is_silent) {
  const auto found = faults_asked_for_.find(ticket);
  if (found == faults_asked_for_.end()) return;
  const PendingFault pending = std::move(found->second);
  faults_asked_for_.erase(found);
  if (!is_silent) loop_.cancel(pending.deadline);
  Session* const asker = clients_.find(pending.asker);
  if (asker == nullptr) return;
  asker->refuse(pending.sequence, no_such_queue_pair(pending.change.qpn, is_silent));
}

void Server::end_fault_questions_of(Session::Id gone) {
  std::vector<std::uint32_t> unanswered;
  for (auto& [ticket, pending] : faults_asked_for_) {
    if (pending.asked.erase(gone) != 0 && pending.asked.empty()) unanswered.push_back(ticket);
  }
  for (const std::uint32_t ticket : unanswered) give_up_fault(ticket, false);
}

}  // namespace verbena::daemon
