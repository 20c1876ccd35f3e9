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
using control::PeerStanding;

namespace {

bool is_stopped(std::uint32_t pid) {
  const std::vector<std::string> fields = fields_of_process(pid);
  return !fields.empty() && (fields[0] == "T" || fields[0] == "t");
}

bool holds_unread(int socket) {
  std::array<std::uint32_t, SK_MEMINFO_VARS> memory{};
  socklen_t size = sizeof memory;
  return ::getsockopt(socket, SOL_SOCKET, SO_MEMINFO, memory.data(), &size) == 0 &&
         memory[SK_MEMINFO_RMEM_ALLOC] != 0;
}

}  // namespace

Session* PeerQuestions::context_at(const IpAddress& address, std::uint32_t slot) const {
  const auto at = std::ranges::find_if(
      fabric_.ports(), [&](const auto& port) { return port->has_address(address); });
  return at == fabric_.ports().end() ? nullptr : clients_.context_with_slot(**at, slot);
}

void PeerQuestions::on_context_closed(const Session& gone) {
  const Session::Context& context = *gone.context;
  const Ended ended{gone.info.pid, gone.info.comm};
  ended_.insert_or_assign({context.port, context.slot}, ended);
  for (const std::uint32_t slot : context.extra_slots) {
    ended_.insert_or_assign({context.port, slot}, ended);
  }
}

void PeerQuestions::on_question(Session& asker, const Incoming& in) {
  const auto question = control::decode<control::PeerQuestion>(in.payload);
  if (!question || !asker.context) return;
  const std::uint32_t slot = Qpn(question->qpn).slot();
  control::PeerNews news;
  news.address = question->address;
  news.qpn = question->qpn;
  Session* const peer = context_at(question->address, slot);
  if (peer != nullptr) {
    news.pid = peer->info.pid;
    news.comm = peer->info.comm;
    news.standing = is_stopped(news.pid) ? PeerStanding::kStopped : PeerStanding::kRuns;
    news.has_unread = holds_unread(peer->context->port->receive_fd(peer->context->slot));
  } else {
    const auto ended = std::ranges::find_if(ended_, [&](const auto& entry) {
      return entry.first.second == slot && entry.first.first->has_address(question->address);
    });
    if (ended != ended_.end()) {
      news.pid = ended->second.pid;
      news.comm = ended->second.comm;
      news.standing = PeerStanding::kEnded;
    }
  }
  asker.send(news, control::kDaemonSequence);
  if (news.standing != PeerStanding::kRuns) return;
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
  control::PeerNews news;
  news.address = question.address;
  news.qpn = question.qpn;
  news.standing = PeerStanding::kRuns;
  news.queue_pair = reply->queue_pair;
  news.connected_to = reply->connected_to;
  news.pid = peer.info.pid;
  news.comm = peer.info.comm;
  asker->send_or_drop(control::encode(news, control::kDaemonSequence));
}

}  // namespace verbena::daemon
