// SPDX-License-Identifier: BSD-2-Clause
// What contexts say about XRC domains that they share.
#include <algorithm>
#include <cerrno>

#include "server.hpp"

namespace verbena::daemon {

using control::Incoming;
using control::ReceiverVerb;

// Of the same port: a domain belongs to a device.
Session* Server::context_with_number(const Session& asker, std::uint32_t number) {
  return clients_.context_with_slot(*asker.context->port, Qpn(number).slot());
}

void Server::on_xrc_message(Session& session, const Incoming& in) {
  using control::MessageType;
  switch (in.type()) {
    case MessageType::kOpenDomain:
      return on_open_domain(session, in);
    case MessageType::kCloseDomain:
      return on_close_domain(session, in);
    case MessageType::kReceiverCall:
      return on_receiver_call(session, in);
    case MessageType::kReceiverAnswer:
      return on_receiver_answer(session, in);
    default:
      break;
  }
  // Nobody waits for an answer to these; a malformed one is dropped.
  if (!session.context) return;
  if (in.type() == MessageType::kStandInWanted) {
    const auto wanted = control::decode<control::StandInWanted>(in.payload);
    if (!wanted || context_with_number(session, wanted->receiver) != &session) return;
    Session* const owner = context_with_number(session, wanted->srq);
    xrc_.on_wanted(session, owner != &session ? owner : nullptr, *wanted);
  } else if (in.type() == MessageType::kStandInAnswer) {
    const auto made = control::decode<control::StandInAnswer>(in.payload);
    if (made) xrc_.on_answer(session, context_with_number(session, made->receiver), *made);
  } else if (in.type() == MessageType::kStandInsReleased) {
    const auto released = control::decode<control::StandInsReleased>(in.payload);
    if (released) xrc_.on_released(session, released->receiver);
  } else {
    const auto event = control::decode<control::ReceiverEvent>(in.payload);
    if (event) xrc_.on_event(session, *event);
  }
}

void Server::on_open_domain(Session& session, const Incoming& in) {
  const auto request = session.decoded<control::OpenDomain>(in);
  if (!request) return;
  if (!session.context) {
    return session.refuse(in.header.sequence, {EINVAL, "this connection has no context"});
  }
  const auto number = xrc_.open(session, *request);
  if (!number) return session.refuse(in.header.sequence, number.error());
  session.send(control::DomainOpened{*number}, in.header.sequence);
}

void Server::on_close_domain(Session& session, const Incoming& in) {
  const auto request = session.decoded<control::CloseDomain>(in);
  if (!request) return;
  if (!xrc_.close(session, request->number)) {
    return session.refuse(in.header.sequence, {EINVAL, "this context has no such domain open"});
  }
  session.answer(in.header.sequence, control::Done{});
}

void Server::on_receiver_call(Session& session, const Incoming& in) {
  auto call = session.decoded<control::ReceiverCall>(in);
  if (!call) return;
  const auto refuse = [&](int code, const char* text) {
    session.refuse(in.header.sequence, {code, text});
  };
  if (!session.context || !xrc_.has_open(session, call->domain)) {
    return refuse(EINVAL, "this context has no such domain open");
  }
  Session* const owner = context_with_number(session, call->receiver);
  if (owner == nullptr || owner == &session || !xrc_.has_open(*owner, call->domain)) {
    return refuse(EINVAL, "no process has an XRC_RECV queue pair of this number in this domain");
  }
  if (call->attributes.size() > control::kReceiverAttributesMax) {
    return refuse(EINVAL, "too many bytes of attributes");
  }
  if (call->verb != ReceiverVerb::kOpen) {
    if (!xrc_.has_handle(session, *owner, call->receiver)) {
      return refuse(EINVAL, "this context has not opened that queue pair");
    }
  } else if (!xrc_.may_have_another_handle(session)) {
    return refuse(ENOMEM, "this process has opened its share of the queue pairs of others");
  }
  if (!may_ask(session, in, *owner)) return;
  // Now and not when it is answered: it is closed once, also if the context ends meanwhile.
  if (call->verb == ReceiverVerb::kClose) xrc_.remove_handle(session, *owner, call->receiver);
  call->ticket = clients_.next_ticket();
  receiver_calls_[call->ticket] = {session.id, session.info.pid, in.header.sequence,
                                   owner->id,  call->verb,       call->receiver};
  owner->send(*call, clients_.next_sequence());
}

void Server::on_receiver_answer(Session& session, const Incoming& in) {
  const auto reply = control::decode<control::ReceiverAnswer>(in.payload);
  const auto pending = reply ? receiver_calls_.find(reply->ticket) : receiver_calls_.end();
  if (pending == receiver_calls_.end() || pending->second.owner != session.id) return;
  const PendingCall call = pending->second;
  receiver_calls_.erase(pending);
  Session* const asker = clients_.find(call.asker);
  const bool has_asker = asker != nullptr && asker->context;
  if (reply->code == 0 && call.verb == ReceiverVerb::kOpen) {
    if (has_asker) {
      xrc_.add_handle(*asker, session, call.receiver);
    } else {
      control::ReceiverCall close;
      close.verb = ReceiverVerb::kClose;
      close.receiver = call.receiver;
      session.send(close, clients_.next_sequence());
    }
  }
  if (!has_asker) return;
  if (reply->code != 0) {
    return asker->refuse(call.sequence, {static_cast<int>(reply->code), reply->text});
  }
  asker->send(control::ReceiverDone{reply->attributes}, call.sequence);
}

void Server::end_receiver_calls_of(Session::Id gone) {
  std::erase_if(receiver_calls_, [&](const auto& entry) {
    const PendingCall& call = entry.second;
    Session* const asker = clients_.find(call.asker);
    if (call.owner != gone) return false;
    if (asker != nullptr) {
      asker->refuse(call.sequence, {EINVAL, "the process that had the queue pair is gone"});
    }
    return true;
  });
}

}  // namespace verbena::daemon
