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

}  // namespace

void QueuePairSearch::begin(Session& asker, std::uint32_t sequence, const std::string& device,
                            std::uint32_t qpn, Found found) {
  const bool has_asked = std::ranges::any_of(
      searches_, [&](const auto& entry) { return entry.second.asker == asker.id; });
  if (has_asked) return asker.refuse(sequence, {EBUSY, "the question before waits for its answer"});
  Search search{asker.id, sequence, qpn, std::move(found), {}};
  const std::uint32_t ticket = clients_.next_ticket();
  for (Session* const context : clients_.contexts_of(device)) {
    if (!context->context->has_slot(Qpn(qpn).slot())) continue;
    search.asked.insert(context->id);
    context->send(control::FindQueuePair{ticket, qpn}, clients_.next_sequence());
  }
  if (search.asked.empty()) return asker.refuse(sequence, no_such_queue_pair(qpn, false));
  search.deadline = timers_.after(kDeadlineNs, [this, ticket] { give_up(ticket, true); });
  searches_.emplace(ticket, std::move(search));
}

void QueuePairSearch::on_answer(const Session& context, const control::Incoming& in) {
  const auto answer = control::decode<control::QueuePairFound>(in.payload);
  const auto search = answer ? searches_.find(answer->ticket) : searches_.end();
  if (search == searches_.end() || search->second.asked.erase(context.id) == 0) return;
  if (!answer->found) {
    if (search->second.asked.empty()) give_up(answer->ticket, false);
    return;
  }
  const Search done = std::move(searches_.extract(search).mapped());
  timers_.cancel(done.deadline);
  Session* const asker = clients_.find(done.asker);
  if (asker != nullptr && context.context) done.found(*asker, context.context->port->info().name);
}

void QueuePairSearch::give_up(std::uint32_t ticket, bool is_silent) {
  const Search search = std::move(searches_.extract(ticket).mapped());
  if (!is_silent) timers_.cancel(search.deadline);
  Session* const asker = clients_.find(search.asker);
  if (asker != nullptr) asker->refuse(search.sequence, no_such_queue_pair(search.qpn, is_silent));
}

void QueuePairSearch::on_client_gone(Session::Id gone) {
  std::vector<std::uint32_t> unanswered;
  for (auto& [ticket, search] : searches_) {
    if (search.asked.erase(gone) != 0 && search.asked.empty()) unanswered.push_back(ticket);
  }
  for (const std::uint32_t ticket : unanswered) give_up(ticket, false);
}

}  // namespace verbena::daemon
