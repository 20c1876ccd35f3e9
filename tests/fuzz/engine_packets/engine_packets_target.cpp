// SPDX-License-Identifier: BSD-2-Clause
// Datagrams of any content, one after the other, into a device with queue pairs of every transport
// in several states. Nothing may crash, write outside of its regions, complete what was never
// posted, or leave a queue pair inconsistent.
//
// The input is a list of records: a byte that names the queue pair (low 4 bits) and what to do, a
// byte with the packet's length in words, and the packet. The queue pair number is corrected, and
// on request PSN and partition key as well, so that most inputs get past the first checks. The
// numbers from 12 on name the first queue pairs again, and say that the packet is a merged one. The
// last number says that the packet is several, each a path MTU long and the last one shorter, which
// come in one buffer.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "pair.hpp"

namespace {

using namespace verbena;
using namespace verbena::sim;
using qp::State;

enum Choice : std::uint8_t {
  kRightPsn = 0x10,  // the last byte of the PSN is a distance from the expected PSN
  kOtherSource = 0x20,
  kTimePasses = 0x40,
  kPosts = 0x80,
};

constexpr std::uint32_t kAll = memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead |
                               memory::kRemoteAtomic | memory::kFlushGlobal |
                               memory::kFlushPersistent | memory::kZeroBased;
constexpr std::size_t kOpen = 8192;
constexpr std::size_t kQps = 12;
constexpr std::size_t kInOneBuffer = 15;
constexpr std::uint32_t kMergedPsns = 2;
constexpr std::size_t kRunStep = wire::Bth::kSize + 256;

struct Sealed {
  std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(kOpen + 128, 0xa5);
  void check() const {
    for (std::size_t i = 0; i < 64; ++i) {
      VERBENA_CHECK(bytes[i] == 0xa5 && bytes[bytes.size() - 1 - i] == 0xa5);
    }
  }
};

class Target {
 public:
  Target() : node_(world_.add_node()), peer_(IpAddress::v4(0x7f0000aa)) {
    memory::RegionRequest r;
    r.domain = Peer::kDomain;
    r.host_address = reinterpret_cast<std::uint64_t>(open_.bytes.data() + 64);
    r.length = kOpen;
    r.access = kAll;
    key_ = *node_.device().memory().register_region(r);
    srq_ = std::make_unique<queue::SharedReceive>(
        queue::ReceiveQueue::Options{16, 1, nullptr, true}, node_);
    srq_->domain = Peer::kDomain;
    srq_->cq = &cq_;
    srq_->xrc_domain = 7;
    node_.device().add_shared(*srq_);
    const Transport rc = Transport::kRc;
    for (const State s :
         {State::kRts, State::kRts, State::kRtr, State::kInit, State::kError, State::kSqd}) {
      add(rc, s, qps_.size() == 1);
    }
    add(Transport::kUc, State::kRts, false);
    add(Transport::kUc, State::kRtr, true);
    add(Transport::kUd, State::kRts, false);
    add(Transport::kUd, State::kRtr, true);
    add(Transport::kXrcReceive, State::kRts, false);
    add(Transport::kXrcSend, State::kRts, false);
    post_receives();
  }
  ~Target() {
    for (qp::QueuePair* qp : qps_) node_.device().destroy_qp(qp);
    node_.device().remove_shared(*srq_);
  }

  void take(std::uint8_t choice, std::span<const std::uint8_t> packet) {
    const std::size_t number = choice & 15;
    qp::QueuePair& qp = *qps_[number == kInOneBuffer ? 0 : number % kQps];
    if (choice & kPosts) post(qp, packet.empty() ? 0 : packet[0]);
    std::vector<std::uint8_t> bytes(packet.begin(), packet.end());
    if (bytes.size() >= 12) put_right(qp, choice, bytes);
    const std::unique_ptr<std::uint8_t[]> exact(new std::uint8_t[bytes.size()]);
    std::copy(bytes.begin(), bytes.end(), exact.get());
    wire::RxDatagram d;
    d.bytes = {exact.get(), bytes.size()};
    d.source = choice & kOtherSource ? IpAddress::v4(0x7f0000bb) : peer_;
    d.destination = node_.address();
    const bool is_run = number == kInOneBuffer && bytes.size() >= kRunStep + wire::Bth::kSize;
    if (number >= kQps && !is_run) d.psns = kMergedPsns;
    device::Device& device = node_.device();
    if (is_run) {
      device.handle_run(now_, run_of(d, exact.get()));
    } else {
      device.handle_datagram(now_, d);
    }
    using device::Acknowledge;
    device.finish_receive(now_,
                          (choice & 3) != 0 ? Acknowledge::kUnlessAnswered : Acknowledge::kNow);
    if (choice & kTimePasses) {
      now_ = std::max(now_ + 1000, std::min(device.next_deadline(), now_ + 100'000'000));
      device.handle_timeouts(now_);
      device.finish_receive(now_, device::Acknowledge::kNow);
    }
    reap();
    check(qp);
  }
  void check_all() {
    for (qp::QueuePair* qp : qps_) check(*qp);
  }

 private:
  void add(Transport transport, State state, bool shared) {
    qp::QueuePairOptions o;
    o.transport = transport;
    o.domain = Peer::kDomain;
    o.send_cq = o.receive_cq = &cq_;
    o.send = {8, 2, 64, false};
    o.receive_capacity = 8;
    o.receive_max_sges = 2;
    if (shared) o.shared = srq_.get();
    if (transport == Transport::kXrcReceive) o.xrc_domain = 7;
    qp::QueuePair* qp = node_.device().create_qp(o);
    qps_.push_back(qp);
    raise(*qp, state);
  }

  void raise(qp::QueuePair& qp, State state) {
    using namespace qp;
    const Transport t = qp.transport();
    const bool ud = t == Transport::kUd, reliable = is_reliable(t);
    const bool sends = reliable && t != Transport::kXrcReceive;
    const bool answers = reliable && t != Transport::kXrcSend;
    const auto modify = [&](const Attributes& a, std::uint32_t mask) {
      VERBENA_CHECK(!node_.device().modify_qp(qp, a, mask, now_));
    };
    Attributes a;
    a.state = State::kInit;
    a.port = 1;
    a.access_flags = kAll & 0x30e;
    a.qkey = 0x11111111;
    modify(a, kMaskState | kMaskPkeyIndex | kMaskPort | (ud ? kMaskQkey : kMaskAccessFlags));
    if (state == State::kInit) return;
    a.state = State::kRtr;
    a.path.dlid = 9;
    a.path.port = 1;
    a.path.resolved = true;
    a.path.destination.address = peer_;
    a.path_mtu = Mtu::k256;
    a.dest_qpn = Qpn(0x123456);
    a.rq_psn = Psn(0xfffffe);
    a.max_dest_rd_atomic = 2;
    a.min_rnr_timer = 1;
    modify(a, ud ? std::uint32_t{kMaskState}
                 : kMaskState | kMaskPath | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn |
                       (answers ? kMaskMaxDestRdAtomic | kMaskMinRnrTimer : 0u));
    if (state == State::kRtr) return;
    a.state = State::kRts;
    a.timeout = 8;
    a.retry_count = 2;
    a.rnr_retry = 2;
    a.sq_psn = Psn(0xfffffe);
    a.max_rd_atomic = 2;
    modify(a, kMaskState | kMaskSqPsn | (reliable ? std::uint32_t{kMaskTimeout} : 0u) |
                  (sends ? kMaskRetryCount | kMaskRnrRetry | kMaskMaxRdAtomic : 0u));
    if (state == State::kRts) return;
    a.state = state;
    modify(a, kMaskState);
  }

  void post_receives() {
    const queue::Sge sge{0, 1024, key_};
    for (std::uint64_t i = 0; i < 4; ++i) {
      for (qp::QueuePair* qp : qps_) {
        if (qp->receive_queue() == nullptr || qp->receive_queue()->is_shared()) continue;
        if (qp->post_receive({1, {&sge, 1}}) == qp::PostedReceive::kOk) ++owed_;
      }
      if (srq_->queue.post({1, {&sge, 1}}) == queue::ReceiveQueue::Posted::kOk) ++owed_;
    }
  }

  void post(qp::QueuePair& qp, std::uint8_t what) {
    queue::SendRequest r;
    r.opcode = static_cast<queue::WorkOpcode>(what % 10);
    r.flags = queue::kSignaled;
    const bool atomic =
        r.opcode == queue::WorkOpcode::kCompareSwap || r.opcode == queue::WorkOpcode::kFetchAdd;
    const queue::Sge sge{1024, atomic ? 8u : (what / 10u) * 40u, key_};
    r.sges = {&sge, 1};
    const queue::AddressVector to{{peer_}, {}, 0};
    r.address = &to;
    r.remote_srqn = srq_->number;
    {
      const Guard guard(qp.lock());
      if (!qp.may_post_send() || qp.post_send(r) != requester::Posted::kOk) return;
    }
    ++owed_;
    node_.device().doorbell(qp, now_);
  }

  static void put_right(qp::QueuePair& qp, std::uint8_t choice, std::vector<std::uint8_t>& bytes) {
    const std::uint32_t qpn = qp.number().value();
    for (int i = 0; i < 3; ++i) bytes[5 + i] = static_cast<std::uint8_t>(qpn >> (16 - 8 * i));
    if ((choice & kRightPsn) == 0) return;
    bytes[1] &= 0xf0;
    bytes[2] = bytes[3] = 0xff;
    const Guard guard(qp.lock());
    const bool response = (bytes[0] & 0x1f) >= 13 && (bytes[0] & 0x1f) <= 18;
    const Psn base = response ? qp.requester().unacknowledged() : qp.responder().expected_psn();
    const Psn psn = base + static_cast<std::uint32_t>(static_cast<std::int8_t>(bytes[11]));
    for (int i = 0; i < 3; ++i)
      bytes[9 + i] = static_cast<std::uint8_t>(psn.value() >> (16 - 8 * i));
  }

  // The packets behind the first one are for the same queue pair, with consecutive PSNs.
  static wire::RxRun run_of(const wire::RxDatagram& all, std::uint8_t* bytes) {
    wire::RxRun run;
    run.head = all;
    run.head.bytes = all.bytes.first(kRunStep);
    run.step = kRunStep;
    const std::size_t rest = all.bytes.size() % kRunStep;
    run.count = static_cast<std::uint32_t>(all.bytes.size() / kRunStep);
    run.last_length = kRunStep;
    if (rest >= wire::Bth::kSize) {
      ++run.count;
      run.last_length = rest;
    }
    const Psn first = wire::BthView(bytes).psn();
    for (std::uint32_t i = 1; i < run.count; ++i) {
      std::uint8_t* at = bytes + i * kRunStep;
      std::copy_n(bytes + 5, 3, at + 5);
      const std::uint32_t psn = (first + i).value();
      for (int k = 0; k < 3; ++k) at[9 + k] = static_cast<std::uint8_t>(psn >> (16 - 8 * k));
    }
    return run;
  }

  void reap() {
    queue::Completion c;
    while (cq_.poll_one(c)) {
      VERBENA_CHECK(owed_ != 0);
      --owed_;
    }
  }
  void check(qp::QueuePair& qp) {
    const Guard guard(qp.lock());
    VERBENA_CHECK(qp.is_consistent());
    open_.check();
  }

  World world_{1};
  Node& node_;
  IpAddress peer_;
  TimeNs now_ = 1'000'000;
  Sealed open_;
  std::uint32_t key_ = 0;
  queue::CompletionQueue cq_{{.capacity = 1024}, node_};
  std::unique_ptr<queue::SharedReceive> srq_;
  std::vector<qp::QueuePair*> qps_;
  std::uint64_t owed_ = 0;  // posted and not completed
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Target target;
  while (size >= 2) {
    const std::size_t length = std::min<std::size_t>(std::size_t{data[1]} * 4, size - 2);
    target.take(data[0], {data + 2, length});
    data += 2 + length;
    size -= 2 + length;
  }
  target.check_all();
  return 0;
}
