// SPDX-License-Identifier: BSD-2-Clause
#include "xrc_broker.hpp"

#include <cerrno>
#include <string>
#include <utility>

#include "verbena/control/xrc_messages.hpp"

namespace verbena::daemon {

using control::Incoming;
using control::ReceiverVerb;

// Returns a context of the asker's own port, because a domain belongs to a device.
Session* XrcBroker::context_with_number(const Session& asker, std::uint32_t number) const {
  return clients_.context_with_slot(*asker.context->port, Qpn(number).slot());
}

void XrcBroker::on_message(Session& session, const Incoming& in) {
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
  // The senders of these wait for no answer, so a malformed one is dropped.
  if (!session.context) return;
  if (in.type() == MessageType::kProxyWanted) {
    const auto wanted = control::decode<control::ProxyWanted>(in.payload);
    if (!wanted || context_with_number(session, wanted->receiver) != &session) return;
    Session* const owner = context_with_number(session, wanted->srq);
    domains_.on_wanted(session, owner != &session ? owner : nullptr, *wanted);
  } else if (in.type() == MessageType::kProxyAnswer) {
    const auto made = control::decode<control::ProxyAnswer>(in.payload);
    if (made) domains_.on_answer(session, context_with_number(session, made->receiver), *made);
  } else if (in.type() == MessageType::kProxiesReleased) {
    const auto released = control::decode<control::ProxiesReleased>(in.payload);
    if (released) domains_.on_released(session, released->receiver);
  } else {
    const auto event = control::decode<control::ReceiverEvent>(in.payload);
    if (event) domains_.on_event(session, *event);
  }
}

void XrcBroker::on_open_domain(Session& session, const Incoming& in) {
  const auto request = session.decoded<control::OpenDomain>(in);
  if (!request) return;
  if (!session.context) {
    return session.refuse(in.header.sequence, {EINVAL, "this connection has no context"});
  }
  const auto number = domains_.open(session, *request);
  if (!number) return session.refuse(in.header.sequence, number.error());
  session.send(control::DomainOpened{*number}, in.header.sequence);
}

void XrcBroker::on_close_domain(Session& session, const Incoming& in) {
  const auto request = session.decoded<control::CloseDomain>(in);
  if (!request) return;
  if (!domains_.close(session, request->number)) {
    return session.refuse(in.header.sequence, {EINVAL, "this context has no such domain open"});
  }
  session.answer(in.header.sequence, control::Done{});
}

void XrcBroker::on_receiver_call(Session& session, const Incoming& in) {
  auto call = session.decoded<control::ReceiverCall>(in);
  if (!call) return;
  const auto refuse = [&](int code, const char* text) {
    session.refuse(in.header.sequence, {code, text});
  };
  if (!session.context || !domains_.has_open(session, call->domain)) {
    return refuse(EINVAL, "this context has no such domain open");
  }
  Session* const owner = context_with_number(session, call->receiver);
  if (owner == nullptr || owner == &session || !domains_.has_open(*owner, call->domain)) {
    return refuse(EINVAL, "no process has an XRC_RECV queue pair of this number in this domain");
  }
  if (call->attributes.size() > control::kReceiverAttributesMax) {
    return refuse(EINVAL, "too many bytes of attributes");
  }
  if (call->verb != ReceiverVerb::kOpen) {
    if (!domains_.has_handle(session, *owner, call->receiver)) {
      return refuse(EINVAL, "this context has not opened that queue pair");
    }
  } else if (!domains_.may_have_another_handle(session)) {
    return refuse(ENOMEM, "this process has opened its share of the queue pairs of others");
  }
  if (!questions_.may_ask(session, in, *owner)) return;
  // Removes the handle now and not with the answer: it is closed once, even if the context ends
  // meanwhile.
  if (call->verb == ReceiverVerb::kClose) domains_.remove_handle(session, *owner, call->receiver);
  call->ticket = clients_.next_ticket();
  questions_.add(call->kType, call->ticket,
                 {session.id,
                  session.info.pid,
                  in.header.sequence,
                  owner->id,
                  {EINVAL, "the process that had the queue pair is gone"},
                  call->receiver,
                  call->verb,
                  timers_.after(kDeadlineNs, [this, ticket = call->ticket] { give_up(ticket); })});
  owner->send(*call, clients_.next_sequence());
}

// The question stays, without its asker: the owner carries the call out when it goes on.
void XrcBroker::give_up(std::uint32_t ticket) {
  Questions::Question* const call = questions_.find(control::ReceiverCall::kType, ticket);
  if (call == nullptr) return;
  const Session* const owner = clients_.find(call->owner);
  Session* const asker = clients_.find(std::exchange(call->asker, 0));
  if (asker == nullptr || owner == nullptr) return;
  asker->refuse(call->sequence,
                {ETIMEDOUT, owner->info.comm + " (pid " + std::to_string(owner->info.pid) +
                                ") does not answer (stopped, or in a debugger)"});
}

void XrcBroker::on_receiver_answer(Session& session, const Incoming& in) {
  const auto reply = control::decode<control::ReceiverAnswer>(in.payload);
  if (!reply) return;
  const auto call = questions_.take(control::ReceiverCall::kType, reply->ticket, session);
  if (!call) return;
  timers_.cancel(call->deadline);
  Session* const asker = clients_.find(call->asker);
  const bool has_asker = asker != nullptr && asker->context;
  if (reply->code == 0 && call->verb == ReceiverVerb::kOpen) {
    if (has_asker) {
      domains_.add_handle(*asker, session, call->receiver);
    } else {
      control::ReceiverCall close;
      close.verb = ReceiverVerb::kClose;
      close.receiver = call->receiver;
      session.send(close, clients_.next_sequence());
    }
  }
  if (!has_asker) return;
  if (reply->code != 0) {
    return asker->refuse(call->sequence, {static_cast<int>(reply->code), reply->text});
  }
  asker->send(control::ReceiverDone{reply->attributes}, call->sequence);
}

}  // namespace verbena::daemon
