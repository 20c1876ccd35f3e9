// SPDX-License-Identifier: BSD-2-Clause
// Some contexts were told to do something, and somebody wants to know when all have done it, or
// which have not in time: they are stopped, or in a debugger.
#include <algorithm>
#include <utility>

#include "server.hpp"

namespace verbena::daemon {

void Server::begin_wait(std::uint32_t ticket, Wait wait) {
  const bool is_vain = std::ranges::includes(silent_, wait.awaited);
  wait.deadline =
      loop_.after(is_vain ? 0 : kFollowDeadlineNs, [this, ticket] { end_wait(ticket, true); });
  waits_.emplace(ticket, std::move(wait));
}

void Server::note_followed(const Session& session, std::uint32_t ticket) {
  silent_.erase(session.id);
  const auto wait = waits_.find(ticket);
  if (wait == waits_.end()) return;
  std::set<Session::Id>& awaited = wait->second.awaited;
  if (awaited.erase(session.id) != 0 && awaited.empty()) end_wait(ticket, false);
}

// A program that has ended does nothing more. Nor does anybody wait for an answer who is gone.
void Server::end_waits_of(Session::Id gone) {
  silent_.erase(gone);
  std::vector<std::uint32_t> done;
  for (auto& [ticket, wait] : waits_) {
    const bool was_last = wait.awaited.erase(gone) != 0 && wait.awaited.empty();
    if (was_last || wait.asker == gone) done.push_back(ticket);
  }
  for (const std::uint32_t ticket : done) end_wait(ticket, false);
}

void Server::end_wait(std::uint32_t ticket, bool is_late) {
  const auto found = waits_.find(ticket);
  const Wait wait = std::move(found->second);
  waits_.erase(found);
  if (is_late) {
    silent_.insert(wait.awaited.begin(), wait.awaited.end());
  } else {
    loop_.cancel(wait.deadline);
  }
  Session* const asker = clients_.find(wait.asker);
  if (asker == nullptr) return;
  control::SilentProcesses silent;
  std::set<std::uint32_t> processes;  // some have several contexts
  for (const Session::Id id : wait.awaited) {
    const fabric::ClientInfo& context = clients_.find(id)->info;
    if (!processes.insert(context.pid).second) continue;
    if (silent.named.size() < control::SilentProcesses::kNamedMost) {
      silent.named.push_back({context.pid, context.comm});
    }
  }
  silent.count = static_cast<std::uint32_t>(processes.size());
  wait.then(*asker, std::move(silent));
}

}  // namespace verbena::daemon
