// SPDX-License-Identifier: BSD-2-Clause
#include "peer_questions.hpp"

#include <linux/sock_diag.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <vector>

#include "process_stat.hpp"

namespace verbena::daemon {

using control::Incoming;
using Standing = PeerReport::Standing;

namespace {

bool is_stopped(std::uint32_t pid) {
  const std::string state = state_of_process(pid);
  return state == "T" || state == "t";
}

// Returns when a process has started, which tells it from a later one of the same number; empty: it
// has ended. The state is that of its first thread, which the number of threads counts, too.
std::string start_of(std::uint32_t pid) {
  constexpr std::size_t kThreads = 17;  // counted from the state
  constexpr std::size_t kStartTime = 19;
  const std::vector<std::string> fields = fields_of_process(pid);
  if (fields.size() <= kStartTime || fields[0] == "X") return {};
  if (fields[0] == "Z" && fields[kThreads] == "1") return {};
  return fields[kStartTime];
}

bool holds_unread(int socket) {
  std::array<std::uint32_t, SK_MEMINFO_VARS> memory{};
  socklen_t size = sizeof memory;
  return ::getsockopt(socket, SOL_SOCKET, SO_MEMINFO, memory.data(), &size) == 0 &&
         memory[SK_MEMINFO_RMEM_ALLOC] != 0;
}

// Returns the port that keeps a request from its way; null: none. `to` is null if the peer's port
// is none of this emulator's.
const fabric::Port* port_down(const fabric::Port& from, const fabric::Port* to) {
  const auto is_down = [](const fabric::Port& port) {
    return port.info().port_state == control::PortState::kDown;
  };
  if (is_down(from)) return &from;
  return to != nullptr && is_down(*to) ? to : nullptr;
}

// The number 0 stands for processes of other namespaces.
bool is_same_process(const Session& a, const Session& b) {
  return &a == &b || (a.info.pid != 0 && a.info.pid == b.info.pid);
}

}  // namespace

bool PeerQuestions::Former::lives() const {
  return pid == 0 ? has_said_so : !started.empty() && start_of(pid) == started;
}

void PeerQuestions::on_context_closed(const Session& gone) {
  const Session::Context& context = *gone.context;
  const Former former{gone.info.pid, gone.info.comm, start_of(gone.info.pid),
                      gone.last_words == control::JournalKind::kClosed};
  former_.insert_or_assign({context.port, context.slot}, former);
  for (const std::uint32_t slot : context.extra_slots) {
    former_.insert_or_assign({context.port, slot}, former);
  }
}

void PeerQuestions::describe_former(const fabric::Port* port, std::uint32_t slot,
                                    const Session& asker, PeerReport& report) const {
  const auto former = former_.find({port, slot});
  if (former != former_.end()) {
    report.pid = former->second.pid;
    report.name = former->second.comm;
    report.standing = former->second.lives() ? Standing::kClosed : Standing::kEnded;
  } else if (!asker.context->port->info().has_foreign_peers) {
    report.standing = port == nullptr ? Standing::kNowhere : Standing::kNobody;
  }
}

void PeerQuestions::on_question(Session& asker, const Incoming& in) {
  const auto question = control::decode<control::PeerQuestion>(in.payload);
  if (!question || !asker.context) return;
  const std::uint32_t slot = Qpn(question->qpn).slot();
  const auto at = std::ranges::find_if(
      fabric_.ports(), [&](const auto& port) { return port->has_address(question->address); });
  const fabric::Port* const port = at == fabric_.ports().end() ? nullptr : at->get();
  Session* const peer = port == nullptr ? nullptr : clients_.context_with_slot(*port, slot);
  control::PeerNews news{question->address, question->qpn, {}};
  PeerReport& report = news.report;
  if (peer != nullptr) {
    report.pid = peer->info.pid;
    report.name = peer->info.comm;
    report.standing = is_stopped(report.pid) ? Standing::kStopped : Standing::kRuns;
    report.has_unread = holds_unread(peer->context->port->receive_fd(peer->context->slot));
    report.is_own_process = is_same_process(*peer, asker);
  } else {
    describe_former(port, slot, asker, report);
  }
  const fabric::Port* const down = port_down(*asker.context->port, port);
  if (down != nullptr && report.standing != Standing::kStopped) {
    report = {};
    report.standing = Standing::kPortDown;
    report.name = down->info().name;
  }
  asker.send(news, control::kDaemonSequence);
  if (report.standing != Standing::kRuns) return;
  peer->send_or_drop(
      control::encode(control::QpQuestion{asker.context->port->info().address, asker.context->slot,
                                          question->address, question->qpn},
                      control::kDaemonSequence));
}

void PeerQuestions::on_answer(const Session& peer, const Incoming& in) {
  const auto reply = control::decode<control::QpAnswer>(in.payload);
  if (!reply || !peer.context) return;
  const control::QpQuestion& question = reply->question;
  Session* const asker = clients_.context_of(question.asker, question.asker_slot);
  if (asker == nullptr || !peer.context->port->has_address(question.address)) return;
  control::PeerNews news{question.address, question.qpn, {}};
  PeerReport& report = news.report;
  report.standing = Standing::kRuns;
  report.queue_pair = reply->queue_pair;
  report.connected_to = reply->connected_to;
  report.pid = peer.info.pid;
  report.name = peer.info.comm;
  report.is_own_process = is_same_process(peer, *asker);
  asker->send_or_drop(control::encode(news, control::kDaemonSequence));
}

}  // namespace verbena::daemon
