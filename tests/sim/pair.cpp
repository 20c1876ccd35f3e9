// SPDX-License-Identifier: BSD-2-Clause
#include "pair.hpp"

#include <algorithm>
#include <cstring>

namespace verbena::sim {

using queue::WorkOpcode;

namespace {

constexpr std::uint32_t kOpen = memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead |
                                memory::kRemoteAtomic | memory::kWindowBind | memory::kFlushGlobal |
                                memory::kFlushPersistent;
constexpr std::uint32_t kXrcDomain = 7;

}  // namespace

Transport other_end(Transport transport) {
  switch (transport) {
    case Transport::kXrcSend:
      return Transport::kXrcReceive;
    case Transport::kXrcReceive:
      return Transport::kXrcSend;
    default:
      return transport;
  }
}

Peer::Peer(World& world, Node& node, const PeerOptions& options)
    : source(node, kDomain, kMemory, 0),
      result(node, kDomain, kMemory, memory::kLocalWrite),
      inbox(node, kDomain, kMemory, memory::kLocalWrite),
      target(node, kDomain, kMemory, kOpen),
      world_(world),
      node_(node),
      options_(options),
      send_cq_({.capacity = options.cq_capacity, .cookie = this}, node),
      receive_cq_({.capacity = options.cq_capacity, .cookie = this}, node) {
  fill_pattern(source.bytes(), 77 + node.index());
  for (Arena* arena : {&result, &inbox, &target}) {
    std::memset(arena->bytes().data(), 0, arena->bytes().size());
  }
  qp::QueuePairOptions o;
  o.transport = options.transport;
  o.domain = kDomain;
  o.send_cq = &send_cq_;
  o.receive_cq = &receive_cq_;
  o.send = {options.send_capacity, 4, 64, false};
  o.receive_capacity = options.receive_capacity;
  o.receive_max_sges = 4;
  o.cookie = this;
  const bool xrc = options.transport == Transport::kXrcReceive;
  if (options.use_srq || xrc) {
    srq_ = std::make_unique<queue::SharedReceive>(
        queue::ReceiveQueue::Options{options.receive_capacity, 4, this, true}, node);
    srq_->domain = kDomain;
    if (!xrc) o.shared = srq_.get();
    if (options.max_tags != 0) {
      srq_->complete_to(receive_cq_);
      srq_->tags = std::make_unique<queue::TagMatching>(
          queue::TagMatching::Options{options.max_tags, 4}, receive_cq_);
    }
  }
  if (xrc) {
    srq_->xrc_domain = o.xrc_domain = kXrcDomain;
    srq_->complete_to(receive_cq_);
    node.device().add_shared(*srq_);
    o.send_cq = o.receive_cq = nullptr;
    o.shares_domain = options.shares_domain;
  }
  qp_ = node.device().create_qp(o);
}

Peer::~Peer() {
  if (qp_ == nullptr) return;
  node_.device().destroy_qp(qp_);
  if (srq_ && options_.transport == Transport::kXrcReceive) node_.device().remove_shared(*srq_);
}

void Peer::modify(const qp::Attributes& attributes, std::uint32_t mask) {
  if (const auto refused = node_.device().modify_qp(*qp_, attributes, mask, world_.now())) {
    throw Failure("transition refused: " + refused->reason);
  }
}

void Peer::to_state(qp::State state) {
  qp::Attributes a;
  a.state = state;
  modify(a, qp::kMaskState);
}

qp::State Peer::state() {
  const Guard guard(qp_->lock());
  return qp_->state();
}

void Peer::bring_up(const Peer& to) {
  using namespace qp;
  const Transport t = options_.transport;
  const bool reliable = is_reliable(t);
  const bool requests = reliable && t != Transport::kXrcReceive;
  const bool answers = reliable && t != Transport::kXrcSend;
  const bool ud = t == Transport::kUd;
  Attributes a;
  a.state = State::kInit;
  a.port = 1;
  a.access_flags = options_.access;
  a.qkey = 0x11111111;
  modify(a, kMaskState | kMaskPkeyIndex | kMaskPort | (ud ? kMaskQkey : kMaskAccessFlags));
  a.state = State::kRtr;
  a.path.dlid = static_cast<std::uint16_t>(1 + to.node_.index());
  a.path.port = 1;
  a.path.resolved = true;
  a.path.destination.address = to.node_.address();
  a.path_mtu = options_.mtu;
  a.dest_qpn = to.qp_->number();
  a.rq_psn = to.options_.psn;
  a.max_dest_rd_atomic = options_.max_dest_rd_atomic;
  a.min_rnr_timer = options_.min_rnr_timer;
  modify(a, ud ? std::uint32_t{kMaskState}
               : kMaskState | kMaskPath | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn |
                     (answers ? kMaskMaxDestRdAtomic | kMaskMinRnrTimer : 0u));
  a.state = State::kRts;
  a.timeout = options_.timeout;
  a.retry_count = options_.retry_count;
  a.rnr_retry = options_.rnr_retry;
  a.sq_psn = options_.psn;
  a.max_rd_atomic = options_.max_rd_atomic;
  modify(a, kMaskState | kMaskSqPsn | (reliable ? std::uint32_t{kMaskTimeout} : 0u) |
                (requests ? kMaskRetryCount | kMaskRnrRetry | kMaskMaxRdAtomic : 0u));
}

Request Peer::send(std::uint64_t id, std::uint32_t length, std::size_t at) const {
  Request r;
  r.id = id;
  r.opcode = WorkOpcode::kSend;
  r.flags = queue::kSignaled;
  r.buffers = {{source.address(at), length, source.key()}};
  return r;
}

Request Peer::write(std::uint64_t id, std::uint32_t length, const Peer& to, std::size_t at) const {
  Request r = send(id, length, at);
  r.opcode = WorkOpcode::kWrite;
  r.remote_address = to.target.address(at);
  r.remote_key = to.target.key();
  return r;
}

Request Peer::read(std::uint64_t id, std::uint32_t length, const Peer& from, std::size_t at) const {
  Request r = write(id, length, from, at);
  r.opcode = WorkOpcode::kRead;
  r.buffers = {{result.address(at), length, result.key()}};
  return r;
}

Request Peer::fetch_add(std::uint64_t id, std::uint64_t add, const Peer& at) const {
  Request r = read(id, 8, at);
  r.opcode = WorkOpcode::kFetchAdd;
  r.swap_or_add = add;
  return r;
}

Request Peer::compare_swap(std::uint64_t id, std::uint64_t compare, std::uint64_t swap,
                           const Peer& at) const {
  Request r = read(id, 8, at);
  r.opcode = WorkOpcode::kCompareSwap;
  r.compare = compare;
  r.swap_or_add = swap;
  return r;
}

requester::Posted Peer::post(Request request) {
  request.sges = request.buffers;
  requester::Posted posted;
  {
    const Guard guard(qp_->lock());
    posted = qp_->post_send(request);
  }
  node_.device().doorbell(*qp_, world_.now());
  return posted;
}

bool Peer::receive(std::uint64_t id, std::uint32_t length, std::size_t at) {
  return receive_into(id, {inbox.address(at), length, inbox.key()});
}

bool Peer::receive_into(std::uint64_t id, const queue::Sge& sge) {
  const queue::RecvRequest request{id, {&sge, 1}};
  return srq_ ? srq_->queue.post(request) == queue::ReceiveQueue::Posted::kOk
              : qp_->post_receive(request) == qp::PostedReceive::kOk;
}

void Peer::reap() {
  queue::Completion c;
  while (send_cq_.poll_one(c)) sends.push_back(c);
  while (receive_cq_.poll_one(c)) receives.push_back(c);
}

std::size_t Peer::count(queue::AsyncEvent event) const {
  const auto& events = node_.events();
  return static_cast<std::size_t>(std::count_if(events.begin(), events.end(), [&](const Event& e) {
    return e.type == event && e.cookie == this;
  }));
}

Pair::Pair(const PeerOptions& left_options, const PeerOptions& right_options, std::uint64_t seed)
    : world(seed),
      a(world.add_node()),
      b(world.add_node()),
      left(world, a, left_options),
      right(world, b, right_options) {
  connect();
}

void Pair::connect() {
  left.bring_up(right);
  right.bring_up(left);
}

}  // namespace verbena::sim
