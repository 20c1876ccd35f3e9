// SPDX-License-Identifier: BSD-2-Clause
#include "raised_events.hpp"

#include <cerrno>
#include <cstdio>
#include <string>

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

void RaisedEvents::on_request(Session& session, const Incoming& in) {
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
      return ask(session, in, *port, *request);
  }
  session.refuse(in.header.sequence, {EINVAL, "the emulator knows no event of this number"});
}

void RaisedEvents::ask(Session& session, const Incoming& in, const fabric::Port& port,
                       const control::RaiseEvent& request) {
  const bool is_srq = request.event == RaisedEvent::kSrqError;
  Session* const owner = clients_.context_with_slot(
      port, is_srq ? control::slot_of_srq(request.number) : Qpn(request.number).slot());
  if (owner == nullptr) return session.refuse(in.header.sequence, no_such_queue(request));
  if (!questions_.may_ask(session, in, *owner)) return;
  const std::uint32_t question = clients_.next_sequence();
  questions_.add(
      request.kType, question,
      {session.id, session.info.pid, in.header.sequence, owner->id, no_such_queue(request)});
  owner->send(request, question);
  timers_.after(kDeadlineNs, [this, question, id = owner->id] { give_up(question, id); });
}

// Refuses the request, unless it was answered meanwhile.
void RaisedEvents::give_up(std::uint32_t number, Session::Id owner) {
  const Session* const context = clients_.find(owner);
  if (context == nullptr) return;
  const auto question = questions_.take(control::RaiseEvent::kType, number, *context);
  Session* const asker = question ? clients_.find(question->asker) : nullptr;
  if (asker == nullptr) return;
  asker->refuse(question->sequence,
                {ETIMEDOUT, context->info.comm + " (pid " + std::to_string(context->info.pid) +
                                ") does not answer (stopped, or in a debugger): the event comes " +
                                "when it goes on"});
}

void RaisedEvents::on_answer(Session& owner, const Incoming& in) {
  const auto question = questions_.take(control::RaiseEvent::kType, in.header.sequence, owner);
  Session* const asker = question ? clients_.find(question->asker) : nullptr;
  if (asker == nullptr) return;
  if (in.type() == control::MessageType::kAck) {
    return asker->send(control::Ack{}, question->sequence);
  }
  const auto refused = control::decode<control::Refused>(in.payload);
  const bool is_unknown = !refused || refused->code == ENOENT;
  asker->refuse(question->sequence,
                is_unknown ? question->if_gone
                           : control::Error{static_cast<int>(refused->code), refused->text});
}

}  // namespace verbena::daemon
