// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/xrc_receivers.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "verbena/context/context.hpp"
#include "verbena/context/qp_state.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/objects/dead_handles.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {
namespace {

using control::ReceiverVerb;
using Bytes = std::vector<std::uint8_t>;

Bytes bytes_of(const ibv_qp_attr& attr) {
  Bytes bytes(sizeof attr);
  std::memcpy(bytes.data(), &attr, sizeof attr);
  return bytes;
}

bool is_event_of_receivers(std::uint32_t type) {
  switch (type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return true;
    default:
      return false;
  }
}

void send_event(Qp& handle, std::uint32_t type) noexcept {
  handle.context.events().send(reinterpret_cast<std::uintptr_t>(&handle.abi.qp), type,
                               &handle.async_events);
}

std::unique_ptr<Qp> new_handle(Context& context, Xrcd& xrcd, std::uint32_t number, void* user) {
  auto handle = std::make_unique<Qp>(context, context.first(), context.first().engine());
  handle->xrcd = &xrcd;
  ibv_qp& v = handle->abi.qp;
  v.context = context.public_context();
  v.qp_context = user;
  v.qp_num = v.handle = number;
  v.qp_type = IBV_QPT_XRC_RECV;
  ::pthread_mutex_init(&v.mutex, nullptr);
  ::pthread_cond_init(&v.cond, nullptr);
  return handle;
}

void end_handle(Qp& handle) {
  ibv_qp& q = handle.abi.qp;
  handle.context.events().end_of("ibv_destroy_qp", q, q.qp_num, q.events_completed,
                                 handle.async_events);
  handle.xrcd->users.remove();
  bury(handle);
}

}  // namespace

// Destroys the receivers that only handles of other contexts have kept.
XrcReceivers::~XrcReceivers() {
  for (const auto& [number, receiver] : receivers_) delete receiver;
}

Qp* XrcReceivers::adopt(std::unique_ptr<Qp> receiver, Xrcd& xrcd, void* user) {
  receiver->receiver = std::make_unique<ReceiverHandles>();
  receiver->receiver->domain = xrcd.number;
  const std::lock_guard guard(lock_);
  const auto place = receivers_.emplace(receiver->pair->number().value(), receiver.get()).first;
  try {
    Qp* handle = make_handle(*receiver, xrcd, user);
    if (xrcd.inode != 0) context_.shared_domains().keep(xrcd.number);
    (void)receiver.release();
    return handle;
  } catch (...) {
    receivers_.erase(place);
    throw;
  }
}

Qp* XrcReceivers::make_handle(Qp& receiver, Xrcd& xrcd, void* user) {
  auto handle = new_handle(context_, xrcd, receiver.pair->number().value(), user);
  handle->opened = &receiver;
  handle->pair = receiver.pair;
  handle->caps = receiver.caps;
  {
    const Guard guard(receiver.pair->lock());
    handle->abi.qp.state = static_cast<ibv_qp_state>(receiver.pair->state());
  }
  {
    const std::lock_guard guard(receiver.receiver->lock);
    receiver.receiver->handles.push_back(handle.get());
  }
  xrcd.users.add();
  return handle.release();
}

Qp* XrcReceivers::open(const char* verb, Xrcd& xrcd, std::uint32_t number, void* user) {
  {
    const std::lock_guard guard(lock_);
    const auto known = receivers_.find(number);
    if (known != receivers_.end() && known->second->receiver->domain == xrcd.number) {
      return make_handle(*known->second, xrcd, user);
    }
  }
  if (xrcd.inode == 0 || context_.device().is_own(number)) {
    refuse(EINVAL, "%s: no XRC_RECV queue pair 0x%06x in this domain", verb, number);
  }
  return open_remote(verb, xrcd, number, user);
}

Qp* XrcReceivers::open_remote(const char* verb, Xrcd& xrcd, std::uint32_t number, void* user) {
  auto handle = new_handle(context_, xrcd, number, user);
  // A queue pair in RESET, which stays there: verbs look at it, but it means nothing for a
  // receiver.
  qp::QueuePairOptions nobody;
  nobody.transport = Transport::kXrcReceive;
  handle->pair = context_.device().create_qp(nobody);
  if (handle->pair == nullptr) refuse(ENOMEM, "%s: all queue pair numbers are taken", verb);
  handle->is_remote = true;
  {
    // Events may come as soon as the other process knows of the handle.
    const std::lock_guard guard(lock_);
    remote_.push_back(handle.get());
  }
  try {
    const ibv_qp_attr attr = call(verb, ReceiverVerb::kOpen, xrcd.number, number, nullptr, 0);
    handle->abi.qp.state = attr.qp_state;
    handle->caps = attr.cap;
  } catch (const VerbRefused&) {
    {
      const std::lock_guard guard(lock_);
      std::erase(remote_, handle.get());
    }
    context_.device().destroy_qp(handle->pair);
    throw;
  }
  xrcd.users.add();
  return handle.release();
}

void XrcReceivers::close(Qp& handle) {
  if (handle.is_remote) {
    {
      const std::lock_guard guard(lock_);
      std::erase(remote_, &handle);
    }
    try {
      if (!context_.is_fatal()) {
        call("ibv_destroy_qp", ReceiverVerb::kClose, handle.xrcd->number, handle.abi.qp.qp_num,
             nullptr, 0);
      }
    } catch (const VerbRefused&) {
      // The queue pair is gone, and this handle has nothing to close.
    }
    context_.device().destroy_qp(handle.pair);
    return end_handle(handle);
  }
  Qp& receiver = *handle.opened;
  std::uint32_t domain = 0;
  {
    const std::lock_guard guard(lock_);
    {
      const std::lock_guard handles(receiver.receiver->lock);
      std::erase(receiver.receiver->handles, &handle);
    }
    domain = destroy_unused(receiver);
  }
  context_.shared_domains().close(domain, SharedDomains::Await::kDaemon);
  end_handle(handle);
}

// Called under lock_. Returns the domain that the receiver used, or 0 if the receiver lives on.
std::uint32_t XrcReceivers::destroy_unused(Qp& receiver) {
  {
    const std::lock_guard guard(receiver.receiver->lock);
    if (!receiver.receiver->handles.empty() || receiver.receiver->remote != 0) return 0;
  }
  receivers_.erase(receiver.pair->number().value());
  // The peer must learn of a message that was received, here or at a proxy.
  context_.first().engine().catch_up();
  const Qpn number = receiver.pair->number();
  context_.device().destroy_qp(receiver.pair);
  context_.first().on_destroyed(number);
  const std::uint32_t domain = receiver.receiver->domain;
  delete &receiver;
  --context_.counts().qps;
  return domain;
}

ibv_qp_attr XrcReceivers::call(const char* verb, ReceiverVerb what, std::uint32_t domain,
                               std::uint32_t number, const ibv_qp_attr* attr, unsigned mask) {
  control::ReceiverCall request;
  request.verb = what;
  request.domain = domain;
  request.receiver = number;
  request.mask = mask;
  if (attr != nullptr) request.attributes = bytes_of(*attr);
  const auto done = context_.ask<control::ReceiverDone>(request);
  if (!done) {
    refuse(done.error().code, "%s: XRC_RECV queue pair 0x%06x of another process: %s", verb, number,
           done.error().text.c_str());
  }
  ibv_qp_attr now{};
  if (done->attributes.size() != sizeof now) {
    if (what == ReceiverVerb::kClose) return now;
    refuse(EIO, "%s: the other process speaks of other attributes", verb);
  }
  std::memcpy(&now, done->attributes.data(), sizeof now);
  return now;
}

void XrcReceivers::modify(const Qp& handle, const ibv_qp_attr& attr, unsigned mask) {
  call("ibv_modify_qp", ReceiverVerb::kModify, handle.xrcd->number, handle.abi.qp.qp_num, &attr,
       mask);
}

void XrcReceivers::query(const Qp& handle, ibv_qp_attr& attr) {
  attr = call("ibv_query_qp", ReceiverVerb::kQuery, handle.xrcd->number, handle.abi.qp.qp_num,
              nullptr, 0);
}

void XrcReceivers::on_event(Qp& receiver, std::uint32_t type) noexcept {
  bool has_remote = false;
  {
    const std::lock_guard guard(receiver.receiver->lock);
    for (Qp* handle : receiver.receiver->handles) send_event(*handle, type);
    has_remote = receiver.receiver->remote != 0;
  }
  if (has_remote) {
    context_.tell(control::ReceiverEvent{receiver.pair->number().value(), type});
  }
}

void XrcReceivers::on_remote_event(const control::ReceiverEvent& event) {
  if (!is_event_of_receivers(event.event)) return;
  const std::lock_guard guard(lock_);
  for (Qp* handle : remote_) {
    if (handle->abi.qp.qp_num == event.receiver) send_event(*handle, event.event);
  }
}

void XrcReceivers::on_call(const control::ReceiverCall& call) {
  control::ReceiverAnswer answer = carry_out(call);
  answer.ticket = call.ticket;
  if (call.ticket != 0) context_.tell(answer);
}

control::ReceiverAnswer XrcReceivers::carry_out(const control::ReceiverCall& call) {
  control::ReceiverAnswer answer;
  const std::lock_guard guard(lock_);
  const auto known = receivers_.find(call.receiver);
  // A close need not name the domain: the daemon closes handles of dead processes without it.
  const bool closes = call.verb == ReceiverVerb::kClose;
  if (known == receivers_.end() || (!closes && known->second->receiver->domain != call.domain)) {
    answer.code = EINVAL;
    answer.text = "no XRC_RECV queue pair of this number in this domain";
    return answer;
  }
  Qp& receiver = *known->second;
  if (closes) {
    {
      const std::lock_guard handles(receiver.receiver->lock);
      if (receiver.receiver->remote != 0) --receiver.receiver->remote;
    }
    context_.shared_domains().close(destroy_unused(receiver), SharedDomains::Await::kNothing);
    return answer;
  }
  ibv_qp_attr attr{};
  if (call.verb == ReceiverVerb::kModify) {
    if (call.attributes.size() != sizeof attr) {
      answer.code = EINVAL;
      answer.text = "attributes of another kind";
      return answer;
    }
    std::memcpy(&attr, call.attributes.data(), sizeof attr);
    // The process that sent them has checked them, if it is one of ours.
    try {
      check_values(attr, call.mask);
    } catch (const VerbRefused& refused) {
      answer.code = static_cast<std::uint32_t>(refused.error);
      answer.text = "an attribute has a value that is out of range";
      return answer;
    }
    if (const auto refused = modify_state(receiver, attr, call.mask, Port::MayAsk::kNo)) {
      answer.code = static_cast<std::uint32_t>(refused->error != 0 ? refused->error : EINVAL);
      answer.text = refused->reason;
      return answer;
    }
  } else if (call.verb == ReceiverVerb::kOpen) {
    const std::lock_guard handles(receiver.receiver->lock);
    ++receiver.receiver->remote;
  }
  query_state(receiver, attr);
  answer.attributes = bytes_of(attr);
  return answer;
}

}  // namespace verbena::provider
