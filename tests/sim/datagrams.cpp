// SPDX-License-Identifier: BSD-2-Clause
#include "datagrams.hpp"

#include <cstring>

namespace verbena::sim {
namespace {

constexpr memory::DomainId kDomain = 1;
constexpr std::uint32_t kQkey = 0x11111111;

qp::QueuePair* make_qp(Node& node, Transport transport, queue::CompletionQueue& send,
                       queue::CompletionQueue& receive) {
  qp::QueuePairOptions o;
  o.transport = transport;
  o.domain = kDomain;
  o.send_cq = &send;
  o.receive_cq = &receive;
  o.send = {8, 2, 64, false};
  o.receive_capacity = 8;
  return node.device().create_qp(o);
}

}  // namespace

DatagramStream::DatagramStream(World& world, Node& from, Node& to, Transport transport)
    : world_(world),
      from_(from),
      to_(to),
      transport_(transport),
      send_cq_({.capacity = 64}, from),
      receive_cq_({.capacity = 64}, to),
      source_(from, kDomain, kSlot * kDepth, 0),
      receive_(to, kDomain, (kSlot + kGrhSize) * kDepth, memory::kLocalWrite),
      sender_(make_qp(from, transport, send_cq_, send_cq_)),
      receiver_(make_qp(to, transport, receive_cq_, receive_cq_)) {
  address_.destination.address = to.address();
  bring_up(from, *sender_, *receiver_, to);
  bring_up(to, *receiver_, *sender_, from);
  for (std::size_t slot = 0; slot < kDepth; ++slot) post_receive(slot);
}

DatagramStream::~DatagramStream() {
  from_.device().destroy_qp(sender_);
  to_.device().destroy_qp(receiver_);
}

void DatagramStream::bring_up(Node& node, qp::QueuePair& qp, qp::QueuePair& to, Node& peer) {
  using namespace qp;
  const bool ud = transport_ == Transport::kUd;
  const auto modify = [&](const Attributes& a, std::uint32_t mask) {
    if (const auto refused = node.device().modify_qp(qp, a, mask, world_.now())) {
      throw Failure("transition refused: " + refused->reason);
    }
  };
  Attributes a;
  a.state = State::kInit;
  a.port = 1;
  a.qkey = kQkey;
  modify(a, kMaskState | kMaskPkeyIndex | kMaskPort | (ud ? kMaskQkey : kMaskAccessFlags));
  a.state = State::kRtr;
  a.path.dlid = static_cast<std::uint16_t>(1 + peer.index());
  a.path.port = 1;
  a.path.resolved = true;
  a.path.destination.address = peer.address();
  a.path_mtu = Mtu::k512;
  a.dest_qpn = to.number();
  modify(a, ud ? std::uint32_t{kMaskState}
               : kMaskState | kMaskPath | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn);
  a.state = State::kRts;
  modify(a, kMaskState | kMaskSqPsn);
}

void DatagramStream::post_receive(std::size_t slot) {
  const queue::Sge sge{receive_.address(slot * (kSlot + kGrhSize)), kSlot + kGrhSize,
                       receive_.key()};
  if (receiver_->post_receive({slot, {&sge, 1}}) != qp::PostedReceive::kOk) {
    throw Failure("a receive was refused");
  }
}

void DatagramStream::send() {
  if (sent_ == kMessages || sent_ - completed_ == kDepth) return;
  const std::size_t slot = sent_ % kDepth;
  const auto length = static_cast<std::uint32_t>(kHeader + world_.random().below(kSlot - kHeader));
  auto bytes = source_.bytes().subspan(slot * kSlot, length);
  const std::uint64_t header[2] = {sent_ + 1, length};
  std::memcpy(bytes.data(), header, sizeof header);
  fill_pattern(bytes.subspan(kHeader), sent_ + 1);
  const queue::Sge sge{source_.address(slot * kSlot), length, source_.key()};
  queue::SendRequest r;
  r.id = sent_;
  r.flags = queue::kSignaled;
  r.sges = {&sge, 1};
  r.address = &address_;
  r.remote_qpn = receiver_->number().value();
  r.remote_qkey = kQkey;
  {
    const Guard guard(sender_->lock());
    if (sender_->post_send(r) != requester::Posted::kOk) throw Failure("a datagram was refused");
  }
  ++sent_;
  from_.device().doorbell(*sender_, world_.now());
}

void DatagramStream::check(const queue::Completion& c) {
  if (c.status != queue::Status::kSuccess) throw Failure("a datagram's receive failed");
  const std::uint32_t grh = transport_ == Transport::kUd ? kGrhSize : 0;
  const auto bytes = receive_.bytes().subspan(c.id * (kSlot + kGrhSize) + grh, c.byte_length - grh);
  std::uint64_t header[2];
  if (bytes.size() < kHeader) throw Failure("a datagram lost its header");
  std::memcpy(header, bytes.data(), sizeof header);
  if (header[0] == 0 || header[0] > sent_ || header[1] != bytes.size()) {
    throw Failure("a datagram that nobody sent, or one of another length");
  }
  expect_pattern(bytes.subspan(kHeader), header[0], "datagram");
  if (transport_ == Transport::kUc) {
    if (header[0] <= last_) throw Failure("UC delivered a message twice or out of order");
    last_ = header[0];
  } else if ((c.flags & queue::kHasGrh) == 0 || c.source_qpn != sender_->number().value()) {
    throw Failure("a UD completion without its GRH or source");
  }
  receive_.expect_guards();
}

void DatagramStream::turn() {
  queue::Completion c;
  while (send_cq_.poll_one(c)) {
    if (c.status != queue::Status::kSuccess || c.id != completed_)
      throw Failure("a datagram's send failed");
    ++completed_;
  }
  while (receive_cq_.poll_one(c)) {
    check(c);
    post_receive(c.id);
  }
  send();
}

}  // namespace verbena::sim
