// SPDX-License-Identifier: BSD-2-Clause
// A context asks about a peer that does not answer it (control/peer_messages.hpp).
#include <linux/sock_diag.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "process_stat.hpp"
#include "server.hpp"
#include "verbena/control/peer_messages.hpp"

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

Session* Server::context_with_slot(const IpAddress& address, std::uint32_t slot) {
  const auto at = std::ranges::find_if(
      fabric_.ports(), [&](const auto& port) { return port->has_address(address); });
  return at == fabric_.ports().end() ? nullptr : clients_.context_with_slot(**at, slot);
}

void Server::remember_end_of(const Session& session) {
  const Session::Context& context = *session.context;
  const Ended ended{session.info.pid, session.info.comm};
  ended_.insert_or_assign({context.port, context.slot}, ended);
  for (const std::uint32_t slot : context.extra_slots)
    ended_.insert_or_assign({context.port, slot}, ended);
}

void Server::on_peer_question(Session& session, const Incoming& in) {
  const auto question = control::decode<control::PeerQuestion>(in.payload);
  if (!question || !session.context) return;
  const std::uint32_t slot = Qpn(question->qpn).slot();
  control::PeerNews news;
  news.address = question->address;
  news.qpn = question->qpn;
  Session* const peer = context_with_slot(question->address, slot);
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
  session.send(news, control::kDaemonSequence);
  if (news.standing != PeerStanding::kRuns) return;
  peer->send_or_drop(control::encode(control::QpQuestion{session.context->port->info().address,
                                                         session.context->slot, question->qpn},
                                     control::kDaemonSequence));
}

void Server::on_qp_answer(Session& session, const Incoming& in) {
  const auto reply = control::decode<control::QpAnswer>(in.payload);
  if (!reply || !session.context) return;
  Session* const asker = clients_.context_of(reply->asker, reply->asker_slot);
  if (asker == nullptr) return;
  const control::PeerNews news{session.context->port->info().address,
                               reply->qpn,
                               PeerStanding::kRuns,
                               reply->queue_pair,
                               false,
                               session.info.pid,
                               session.info.comm};
  asker->send_or_drop(control::encode(news, control::kDaemonSequence));
}

}  // namespace verbena::daemon
