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

Session* Server::context_with_slot(const fabric::Port& port, std::uint32_t slot) {
  const auto main = by_slot_.find({&port, slot});
  if (main != by_slot_.end()) return main->second;
  for (const auto& [key, session] : by_slot_) {
    const auto& extra = session->context->extra_slots;
    if (key.first == &port && std::find(extra.begin(), extra.end(), slot) != extra.end()) {
      return session;
    }
  }
  return nullptr;
}

void Server::on_raise_event(Session& session, const Incoming& in) {
  const auto request = decoded<control::RaiseEvent>(session, in);
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
      for (const auto& [key, context] : by_slot_) {
        if (key.first == port) context->send(*request, control::kDaemonSequence | next_sequence_++);
      }
      return answer(session, in, control::Done{});
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
  Session* const owner = context_with_slot(
      port, is_srq ? control::slot_of_srq(request.number) : Qpn(request.number).slot());
  if (owner == nullptr) return session.refuse(in.header.sequence, no_such_queue(request));
  if (!may_ask(session, in, *owner)) return;
  const std::uint32_t question = control::kDaemonSequence | next_sequence_++;
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
  const auto asker = sessions_.find(event.asker);
  if (asker == sessions_.end()) return;
  if (in.type() == control::MessageType::kAck) {
    return asker->second->send(control::Ack{}, event.sequence);
  }
  const auto refused = control::decode<control::Refused>(in.payload);
  const bool is_unknown = !refused || refused->code == ENOENT;
  asker->second->refuse(
      event.sequence, is_unknown ? no_such_queue(event.request)
                                 : control::Error{static_cast<int>(refused->code), refused->text});
}

void Server::end_events_of(Session::Id gone) {
  rule_events_.forget_owner(gone);
  std::erase_if(raised_, [&](const auto& entry) {
    const PendingEvent& event = entry.second;
    const auto asker = sessions_.find(event.asker);
    if (event.owner == gone && asker != sessions_.end()) {
      asker->second->refuse(event.sequence, no_such_queue(event.request));
    }
    return event.owner == gone || event.asker == gone;
  });
}

}  // namespace verbena::daemon
