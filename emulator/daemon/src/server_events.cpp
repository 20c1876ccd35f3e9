// SPDX-License-Identifier: BSD-2-Clause
// Events that `verbena event` asks for: the question goes to the context that has the queue, its
// answer back.
#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "server.hpp"
#include "verbena/control/event_messages.hpp"

namespace verbena::daemon {

using control::Incoming;
using control::RaisedEvent;

namespace {

control::Error no_such_queue(const control::RaiseEvent& request) {
  char number[16];
  std::snprintf(number, sizeof number, "0x%06x", request.number);
  const bool is_srq = request.event == RaisedEvent::kSrqError;
  return {ENOENT, request.device + " has no " + (is_srq ? "shared receive queue " : "queue pair ") +
                      number + "; `verbena status` lists those there are"};
}

}  // namespace

void Server::on_raise_event(Session& session, const Incoming& in) {
  const auto request = session.decoded<control::RaiseEvent>(in);
  if (!request) return;
  const fabric::Port* port = fabric_.find(request->device);
  if (port == nullptr) {
    return session.refuse(in.header.sequence, fabric_.no_such_device(request->device));
  }
  switch (request->event) {
    case RaisedEvent::kClientReregister:
    case RaisedEvent::kWqFatal:
      if (port->contexts() == 0) {
        return session.refuse(in.header.sequence, {ENOENT, "no program has " + request->device +
                                                               " open; there is nobody to tell"});
      }
      for (const auto& [key, context] : clients_.contexts()) {
        if (key.first == port) context->send(*request, clients_.next_sequence());
      }
      return session.answer(in.header.sequence, control::Done{});
    case RaisedEvent::kQpFatal:
    case RaisedEvent::kPathMigrationError:
    case RaisedEvent::kSrqError:
      return ask_for_event(session, in, *port, *request);
  }
  session.refuse(in.header.sequence, {EINVAL, "the emulator knows no event of this number"});
}

void Server::ask_for_event(Session& session, const Incoming& in, const fabric::Port& port,
                           const control::RaiseEvent& request) {
  const bool is_srq = request.event == RaisedEvent::kSrqError;
  Session* const owner = clients_.context_with_slot(
      port, is_srq ? control::slot_of_srq(request.number) : Qpn(request.number).slot());
  if (owner == nullptr) return session.refuse(in.header.sequence, no_such_queue(request));
  if (!may_ask(session, in, *owner)) return;
  const std::uint32_t question = clients_.next_sequence();
  raised_[question] = {session.id, session.info.pid, in.header.sequence, owner->id, request};
  owner->send(request, question);
}

void Server::on_event_answer(Session& session, const Incoming& in) {
  if (const auto rule = rule_events_.take_answer(in.header.sequence, session.id)) {
    return note_rule_event(*rule, in.type() == control::MessageType::kAck);
  }
  const auto pending = raised_.find(in.header.sequence);
  if (pending == raised_.end() || pending->second.owner != session.id) return;
  const PendingEvent event = pending->second;
  raised_.erase(pending);
  Session* const asker = clients_.find(event.asker);
  if (asker == nullptr) return;
  if (in.type() == control::MessageType::kAck) {
    return asker->send(control::Ack{}, event.sequence);
  }
  const auto refused = control::decode<control::Refused>(in.payload);
  const bool is_unknown = !refused || refused->code == ENOENT;
  asker->refuse(event.sequence,
                is_unknown ? no_such_queue(event.request)
                           : control::Error{static_cast<int>(refused->code), refused->text});
}

void Server::end_events_of(Session::Id gone) {
  rule_events_.forget_owner(gone);
  std::erase_if(raised_, [&](const auto& entry) {
    const PendingEvent& event = entry.second;
    Session* const asker = clients_.find(event.asker);
    if (event.owner == gone && asker != nullptr) {
      asker->refuse(event.sequence, no_such_queue(event.request));
    }
    return event.owner == gone || event.asker == gone;
  });
}

}  // namespace verbena::daemon
