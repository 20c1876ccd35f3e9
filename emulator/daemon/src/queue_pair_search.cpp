// SPDX-License-Identifier: BSD-2-Clause
#include "queue_pair_search.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "verbena/control/fault_messages.hpp"

namespace verbena::daemon {
namespace {

std::string name_of(std::uint32_t qpn) {
  char text[32];
  std::snprintf(text, sizeof text, "queue pair 0x%06x", qpn);
  return text;
}

control::Error no_such_queue_pair(std::uint32_t qpn, bool is_silent) {
  if (is_silent) {
    return {ETIMEDOUT, "the program that could have " + name_of(qpn) +
                           " does not answer (stopped, or in a debugger)"};
  }
  return {ENOENT, "there is no " + name_of(qpn) + "; `verbena status` shows those that there are"};
}

control::Error several_have_it(std::uint32_t qpn, const std::set<std::string>& devices) {
  std::string names;
  for (const std::string& name : devices) names += (names.empty() ? "" : ", ") + name;
  return {EINVAL, "several devices have a " + name_of(qpn) + " (" + names +
                      "); name the one that is meant: --device"};
}

}  // namespace

void QueuePairSearch::begin(Session& asker, std::uint32_t sequence, const std::string& device,
                            std::uint32_t qpn, Found found) {
  const bool has_asked = std::ranges::any_of(
      searches_, [&](const auto& entry) { return entry.second.asker == asker.id; });
  if (has_asked) return asker.refuse(sequence, {EBUSY, "the question before waits for its answer"});
  Search search{asker.id, sequence, qpn, std::move(found), {}, {}};
  const std::uint32_t ticket = clients_.next_ticket();
  for (Session* const context : clients_.contexts_of(device)) {
    if (!context->context->has_slot(Qpn(qpn).slot())) continue;
    search.asked.insert(context->id);
    context->send(control::FindQueuePair{ticket, qpn}, clients_.next_sequence());
  }
  if (search.asked.empty()) return asker.refuse(sequence, no_such_queue_pair(qpn, false));
  search.deadline = timers_.after(kDeadlineNs, [this, ticket] { end(ticket, true); });
  searches_.emplace(ticket, std::move(search));
}

void QueuePairSearch::on_answer(const Session& context, const control::Incoming& in) {
  const auto answer = control::decode<control::QueuePairFound>(in.payload);
  const auto search = answer ? searches_.find(answer->ticket) : searches_.end();
  if (search == searches_.end() || search->second.asked.erase(context.id) == 0) return;
  if (answer->found && context.context) {
    search->second.devices.insert(context.context->port->info().name);
  }
  if (search->second.asked.empty()) end(answer->ticket, false);
}

// A number is given once on a device, but each device gives it. So all that were asked are awaited;
// one that is silent is taken for one without such a queue pair if another has it.
void QueuePairSearch::end(std::uint32_t ticket, bool is_silent) {
  const Search search = std::move(searches_.extract(ticket).mapped());
  if (!is_silent) timers_.cancel(search.deadline);
  Session* const asker = clients_.find(search.asker);
  if (asker == nullptr) return;
  if (search.devices.size() == 1) return search.found(*asker, *search.devices.begin());
  asker->refuse(search.sequence, search.devices.empty()
                                     ? no_such_queue_pair(search.qpn, is_silent)
                                     : several_have_it(search.qpn, search.devices));
}

void QueuePairSearch::on_client_gone(Session::Id gone) {
  std::vector<std::uint32_t> unanswered;
  for (auto& [ticket, search] : searches_) {
    if (search.asked.erase(gone) != 0 && search.asked.empty()) unanswered.push_back(ticket);
  }
  for (const std::uint32_t ticket : unanswered) end(ticket, false);
}

}  // namespace verbena::daemon
