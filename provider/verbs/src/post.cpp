// SPDX-License-Identifier: BSD-2-Clause
// Posts requests by ibv_post_send and ibv_post_recv. Nothing here throws or allocates.
#include "verbena/verbs/post.hpp"

#include "verbena/context/context.hpp"
#include "verbena/objects/dead_handles.hpp"
#include "verbena/objects/limits.hpp"
#include "verbena/verbs/translate.hpp"
#include "verbena/verbs/verbs.hpp"

namespace verbena::provider {
namespace {

bool is_atomic(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

void fill_target(queue::SendRequest& r, const ibv_send_wr& wr, Transport transport) {
  if (transport == Transport::kUd) {
    r.address = wr.wr.ud.ah != nullptr ? &object_of(wr.wr.ud.ah).vector : nullptr;
    r.remote_qpn = wr.wr.ud.remote_qpn;
    r.remote_qkey = wr.wr.ud.remote_qkey;
    return;
  }
  if (transport == Transport::kXrcSend) r.remote_srqn = wr.qp_type.xrc.remote_srqn;
  if (wr.opcode == IBV_WR_BIND_MW) {
    return fill_binding(r, *wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info);
  }
  if (is_atomic(wr.opcode)) {
    r.remote_address = wr.wr.atomic.remote_addr;
    r.remote_key = wr.wr.atomic.rkey;
    r.compare = wr.wr.atomic.compare_add;
    r.swap_or_add =
        wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? wr.wr.atomic.compare_add : wr.wr.atomic.swap;
    return;
  }
  r.remote_address = wr.wr.rdma.remote_addr;
  r.remote_key = wr.wr.rdma.rkey;
}

int post_one(Qp& qp, const ibv_send_wr& wr) noexcept {
  const auto opcode = opcode_of(wr.opcode);
  if (!opcode) {
    return refusal(EINVAL, "ibv_post_send: opcode = %d is not one of this device",
                   static_cast<int>(wr.opcode));
  }
  // A request of ibv_post_send has no fields for what these need.
  if (*opcode == queue::WorkOpcode::kAtomicWrite || *opcode == queue::WorkOpcode::kFlush) {
    const bool writes = *opcode == queue::WorkOpcode::kAtomicWrite;
    return refusal(EINVAL, "ibv_post_send: opcode = %d: use %s", static_cast<int>(wr.opcode),
                   writes ? "ibv_wr_atomic_write" : "ibv_wr_flush");
  }
  if (*opcode == queue::WorkOpcode::kBindWindow && wr.bind_mw.mw == nullptr) {
    return refusal(EINVAL, "ibv_post_send: IBV_WR_BIND_MW without a window");
  }
  const bool to_address = qp.pair->transport() == Transport::kUd && wr.wr.ud.ah != nullptr;
  if (to_address && is_dead(wr.wr.ud.ah)) {
    return refusal(EINVAL, "ibv_post_send: wr.ud.ah was destroyed before");
  }
  SgeList sges;
  if (const int error = sges.take("ibv_post_send", wr.sg_list, wr.num_sge); error != 0) {
    return error;
  }
  queue::SendRequest r;
  r.id = wr.wr_id;
  r.opcode = *opcode;
  r.flags = static_cast<std::uint8_t>(wr.send_flags & kWorkFlags);
  r.immediate = wr.imm_data;
  r.sges = sges.span();
  fill_target(r, wr, qp.pair->transport());
  return errno_of_posted(qp, qp.pair->post_send(r), &r);
}

int post_send(ibv_qp* q, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  note_posting();
  Qp& qp = object_of(q);
  return qp.engine.post(*qp.pair, qp.posts, [&] {
    int error = qp.pair->may_post_send() ? 0 : errno_of_state("ibv_post_send", qp);
    while (error == 0 && wr != nullptr) {
      error = post_one(qp, *wr);
      if (error == 0) wr = wr->next;
    }
    if (error != 0) *bad = wr;
    return error;
  });
}

int post_recv(ibv_qp* q, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
  Qp& qp = object_of(q);
  for (; wr != nullptr; wr = wr->next) {
    ReceiveRequest request;
    int error = request.take("ibv_post_recv", *wr);
    if (error == 0) {
      const qp::PostedReceive posted = qp.pair->post_receive(request.value);
      if (posted == qp::PostedReceive::kOk) continue;
      const ShortText whose("ibv_post_recv: queue pair 0x%06x", q->qp_num);
      error = errno_of_receive(
          whose.c_str(), posted, wr->num_sge,
          {"max_recv_wr", qp.caps.max_recv_wr, "max_recv_sge", qp.caps.max_recv_sge});
    }
    *bad = wr;
    return error;
  }
  return 0;
}

}  // namespace

namespace {

[[gnu::cold]] int explain_posted(int error, const Qp& qp, requester::Posted posted,
                                 const queue::SendRequest* request) noexcept {
  ShortText values("max_send_wr = %u, max_send_sge = %u, max_inline_data = %u", qp.caps.max_send_wr,
                   qp.caps.max_send_sge, qp.caps.max_inline_data);
  if (posted == requester::Posted::kMessageTooLong) {
    const bool is_datagram = qp.pair->transport() == Transport::kUd;
    values.add(is_datagram ? ", the port's active_mtu = %u" : ", max_msg_sz = %u",
               is_datagram ? qp.pair->endpoint().mtu : kMaxMessage);
  }
  if (request != nullptr) {
    std::uint64_t length = 0;
    for (const queue::Sge& sge : request->sges) length += sge.length;
    values.add("; wr_id = %llu: %s, %zu elements, %llu bytes",
               static_cast<unsigned long long>(request->id), to_string(request->opcode).data(),
               request->sges.size(), static_cast<unsigned long long>(length));
  }
  return refusal(error, "ibv_post_send: queue pair 0x%06x: %s (%s)", qp.abi.qp.qp_num,
                 requester::to_string(posted), values.c_str());
}

}  // namespace

int errno_of_receive(const char* whose, queue::ReceiveQueue::Posted posted, int sges,
                     const ReceiveLimits& limits) noexcept {
  using Posted = queue::ReceiveQueue::Posted;
  switch (posted) {
    case Posted::kOk:
      return 0;
    case Posted::kFull:
      return refusal(ENOMEM,
                     "%s: the receive queue is full: %s = %u receives have their slots (one is "
                     "free when its completion was polled)",
                     whose, limits.name_of_capacity, limits.capacity);
    case Posted::kNoMemory:
      return refusal(ENOMEM, "%s: no memory for the queue", whose);
    case Posted::kTooManySges:
      return refusal(EINVAL, "%s: num_sge = %d is more than %s = %u", whose, sges,
                     limits.name_of_sges, limits.sges);
    case Posted::kWrongState:
      return refusal(EINVAL, "%s is in state RESET; receives may be posted from INIT on", whose);
    case Posted::kNoQueue:
      return refusal(EINVAL,
                     "%s has no receive queue of its own (it uses an SRQ, or is of an XRC type)",
                     whose);
  }
  return EINVAL;
}

int errno_of_posted(const Qp& qp, requester::Posted posted,
                    const queue::SendRequest* request) noexcept {
  if (posted == requester::Posted::kOk) [[likely]]
    return 0;
  const int error = posted == requester::Posted::kQueueFull    ? ENOMEM
                    : posted == requester::Posted::kNoMemory   ? ENOMEM
                    : posted == requester::Posted::kInlineGone ? EFAULT
                                                               : EINVAL;
  return explain_posted(error, qp, posted, request);
}

int errno_of_state(const char* verb, const Qp& qp) noexcept {
  const std::uint32_t number = qp.abi.qp.qp_num;
  if (qp.pair->transport() == Transport::kXrcReceive) {
    return refusal(EINVAL, "%s: queue pair 0x%06x is an XRC_RECV one, which sends nothing", verb,
                   number);
  }
  return refusal(EINVAL, "%s: queue pair 0x%06x is in state %s; sends may be posted from RTS on",
                 verb, number, qp::to_string(qp.pair->state()));
}

void offer_post_verbs(abi::Ops& ops) {
  ops.post_send = &post_send;
  ops.post_recv = &post_recv;
}

}  // namespace verbena::provider
