// SPDX-License-Identifier: BSD-2-Clause
#include "joined.hpp"

#include "verbena/base/check.hpp"

namespace verbena::bench {
namespace {

constexpr memory::DomainId kDomain = 1;
constexpr std::uint32_t kAccess =
    memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;

std::unique_ptr<device::Device> make_device(std::uint32_t slot, IpAddress address,
                                            wire::Transmitter& transmitter,
                                            queue::EventSink& events) {
  device::DeviceOptions o;
  o.slot = slot;
  o.address = address;
  o.plan.subnet = 0x7f000000;
  return std::make_unique<device::Device>(o, transmitter, events);
}

}  // namespace

Host::Host(std::uint32_t number, IpAddress address, std::uint32_t depth, std::size_t memory_bytes)
    : device(make_device(number, address, *this, *this)),
      send_cq({.capacity = 4 * depth}, *this),
      receive_cq({.capacity = 4 * depth}, *this),
      memory(memory_bytes),
      address_(address) {
  memory::RegionRequest r;
  r.domain = kDomain;
  r.host_address = r.base = reinterpret_cast<std::uint64_t>(memory.data());
  r.length = memory.size();
  r.access = kAccess;
  key = *device->memory().register_region(r);
  qp::QueuePairOptions o;
  o.domain = kDomain;
  o.send_cq = &send_cq;
  o.receive_cq = &receive_cq;
  o.send = {depth, 2, 64, false};
  o.receive_capacity = depth;
  qp = device->create_qp(o);
}

Host::~Host() { device->destroy_qp(qp); }

void Host::connect(Host& peer) {
  using namespace verbena::qp;
  peer_ = &peer;
  const auto modify = [&](const Attributes& a, std::uint32_t mask) {
    VERBENA_CHECK(!device->modify_qp(*qp, a, mask, now));
  };
  Attributes a;
  a.state = State::kInit;
  a.port = 1;
  a.access_flags = kAccess & ~1u;
  modify(a, kMaskState | kMaskPkeyIndex | kMaskPort | kMaskAccessFlags);
  a.state = State::kRtr;
  a.path.dlid = 2;
  a.path.port = 1;
  a.path.resolved = true;
  a.path.destination.address = peer.address_;
  a.path_mtu = Mtu::k4096;
  a.dest_qpn = peer.qp->number();
  a.max_dest_rd_atomic = 16;
  a.min_rnr_timer = 12;
  modify(a, kMaskState | kMaskPath | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn |
                kMaskMaxDestRdAtomic | kMaskMinRnrTimer);
  a.state = State::kRts;
  a.timeout = 14;
  a.retry_count = a.rnr_retry = 7;
  a.max_rd_atomic = 16;
  modify(a, kMaskState | kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskSqPsn |
                kMaskMaxRdAtomic);
}

void Host::post_receive(std::uint64_t id, std::uint32_t length) {
  const queue::Sge sge{reinterpret_cast<std::uint64_t>(memory.data()) + slot(id), length, key};
  VERBENA_CHECK(qp->post_receive({id, {&sge, 1}}) == qp::PostedReceive::kOk);
}

Joined::Joined(std::uint32_t depth, std::size_t memory_bytes)
    : left(1, IpAddress::v4(0x7f000001), depth, memory_bytes),
      right(2, IpAddress::v4(0x7f000002), depth, memory_bytes) {
  left.connect(right);
  right.connect(left);
}

queue::SendRequest Joined::write(const queue::Sge& sge, bool inlined) const {
  queue::SendRequest r;
  r.opcode = queue::WorkOpcode::kWrite;
  r.sges = {&sge, 1};
  r.flags = inlined ? queue::kInline : 0;
  r.remote_address = reinterpret_cast<std::uint64_t>(right.memory.data());
  r.remote_key = right.key;
  return r;
}

void Joined::exchange(queue::SendRequest request, std::uint32_t batch, bool walks,
                      std::uint64_t first) {
  queue::Sge sge = request.sges.front();
  request.sges = {&sge, 1};
  {
    const Guard guard(left.qp->lock());
    for (std::uint32_t i = 0; i < batch; ++i) {
      request.id = i;
      if (walks) {
        sge.address = reinterpret_cast<std::uint64_t>(left.memory.data()) + left.slot(first + i);
      }
      if (i + 1 == batch) request.flags |= queue::kSignaled;
      VERBENA_CHECK(left.qp->post_send(request) == requester::Posted::kOk);
    }
  }
  left.device->doorbell(*left.qp, left.now);
  queue::Completion done;
  for (int turn = 0; !left.send_cq.poll_one(done); ++turn) {
    VERBENA_CHECK(turn < 1000);
    right.finish();
    left.finish();
  }
  VERBENA_CHECK(done.status == queue::Status::kSuccess);
  left.now += 1000;
  right.now += 1000;
}

}  // namespace verbena::bench
