// SPDX-License-Identifier: BSD-2-Clause
// An engine for tests that decide when it receives, and what time it is then.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "verbena/device/device.hpp"
#include "verbena/wire/crc32.hpp"

namespace verbena {

inline constexpr memory::DomainId kDomain = 1;
inline constexpr std::uint32_t kAll =
    memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;
inline constexpr std::size_t kMemory = 1 << 16;

// A device with an inbox, which its peer fills from any thread.
class Host final : public wire::Transmitter, public queue::EventSink {
 public:
  explicit Host(std::uint32_t index, std::uint64_t loses_each_one_in = 0)
      : loses_each(loses_each_one_in),
        address(IpAddress::v4(0x7f000001 + index)),
        device(options(index, address), *this, *this),
        send_cq({.capacity = 1u << 16}, *this),
        receive_cq({.capacity = 1u << 16}, *this),
        bytes(kMemory) {
    key = register_all();
  }
  static device::DeviceOptions options(std::uint32_t index, const IpAddress& address) {
    device::DeviceOptions o;
    o.slot = 1 + index;
    o.address = address;
    o.plan.subnet = 0x7f000000;
    return o;
  }
  std::uint32_t register_all() {
    memory::RegionRequest r;
    r.domain = kDomain;
    r.host_address = r.base = reinterpret_cast<std::uint64_t>(bytes.data());
    r.length = kMemory;
    r.access = kAll;
    return *device.memory().register_region(r);
  }
  qp::QueuePair* create_qp(Transport transport = Transport::kRc) {
    qp::QueuePairOptions o;
    o.transport = transport;
    o.domain = kDomain;
    o.send_cq = &send_cq;
    o.receive_cq = &receive_cq;
    o.send = {256, 2, 64, false};
    o.receive_capacity = 256;
    return device.create_qp(o);
  }

  void send(wire::TxBatch& batch, Qpn) noexcept override {
    if (on_send) on_send(batch);
    const std::lock_guard guard(peer->mutex);
    for (const auto& p : batch.packets()) {
      if (&p == batch.first_gone()) continue;
      const std::uint64_t number = sent.fetch_add(1) + 1;
      if (loses_each != 0 && number % loses_each == 0) continue;
      const auto view = batch.bytes_of(p);
      peer->inbox.emplace_back(view.begin(), view.end());
    }
  }
  std::unique_ptr<wire::Path> path_to(const wire::Destination&, Qpn) override {
    struct Path final : wire::Path {
      explicit Path(Host& of) : host(of) {}
      std::uint32_t capacity_packets(std::size_t) noexcept override { return 64; }
      Packing packing() noexcept override { return host.travels; }
      Host& host;
    };
    return std::make_unique<Path>(*this);
  }
  void on_completion_event(void*) noexcept override {}
  void on_async_event(queue::AsyncEvent, void*) noexcept override {}
  bool wants_explanations() const noexcept override { return told != nullptr; }
  void explain(const char* text) noexcept override { *told += text; }

  // One round of the receiving thread. Returns how many packets there were. It holds one lock
  // throughout, because otherwise a queue pair could be destroyed while it has something to send.
  std::size_t receive(TimeNs time, device::Acknowledge acknowledge) {
    const Guard guard(device.receive_lock());
    const std::size_t count = take_in_locked(time);
    device.finish_receive(time, acknowledge);
    device.handle_timeouts(time);
    return count;
  }
  // Does only the first half of a round.
  void take_in(TimeNs time) {
    const Guard guard(device.receive_lock());
    take_in_locked(time);
  }
  std::size_t take_in_locked(TimeNs time) {
    std::deque<std::vector<std::uint8_t>> packets;
    {
      const std::lock_guard guard(mutex);
      packets.swap(inbox);
    }
    for (const auto& p : packets) {
      wire::RxDatagram d;
      d.bytes = p;
      d.source = peer->address;
      d.destination = address;
      device.handle_datagram(time, d);
    }
    return packets.size();
  }

  Host* peer = nullptr;
  wire::Path::Packing travels;
  std::function<void(const wire::TxBatch&)> on_send;  // sees each batch
  std::string* told = nullptr;                        // gets the explanations; null: there are none
  const std::uint64_t loses_each;
  IpAddress address;
  std::atomic<TimeNs> now{1'000'000};
  std::atomic<std::uint64_t> sent{0};
  std::mutex mutex;
  std::deque<std::vector<std::uint8_t>> inbox;
  device::Device device;
  queue::CompletionQueue send_cq, receive_cq;
  std::vector<std::uint8_t> bytes;
  std::uint32_t key = 0;
};

inline void bring_up(Host& host, qp::QueuePair& qp, Host& peer, qp::QueuePair& to,
                     Mtu mtu = Mtu::k256) {
  using namespace verbena::qp;
  const auto modify = [&](const Attributes& a, std::uint32_t mask) {
    const auto refused = host.device.modify_qp(qp, a, mask, host.now);
    ASSERT_FALSE(refused) << refused->reason;
  };
  Attributes a;
  a.state = State::kInit;
  a.port = 1;
  a.access_flags = kAll & ~1u;
  modify(a, kMaskState | kMaskPkeyIndex | kMaskPort | kMaskAccessFlags);
  a.state = State::kRtr;
  a.path.dlid = 2;
  a.path.port = 1;
  a.path.resolved = true;
  a.path.destination.address = peer.address;
  a.path_mtu = mtu;
  a.dest_qpn = to.number();
  a.max_dest_rd_atomic = 4;
  a.min_rnr_timer = 1;
  const bool is_rc = qp.transport() == Transport::kRc;
  modify(a, kMaskState | kMaskPath | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn |
                (is_rc ? kMaskMaxDestRdAtomic | kMaskMinRnrTimer : 0));
  a.state = State::kRts;
  a.timeout = 0;  // no limit, because the clock here runs as fast as the machine
  a.retry_count = a.rnr_retry = 7;
  a.max_rd_atomic = 4;
  modify(a, kMaskState | kMaskSqPsn |
                (is_rc ? kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskMaxRdAtomic : 0));
}

// Two hosts, each with a queue pair that is connected to the other's.
class TwoHosts : public testing::Test {
 protected:
  explicit TwoHosts(Mtu mtu = Mtu::k256) {
    left.peer = &right;
    right.peer = &left;
    bring_up(left, *left_qp, right, *right_qp, mtu);
    bring_up(right, *right_qp, left, *left_qp, mtu);
  }
  ~TwoHosts() override {
    left.device.destroy_qp(left_qp);
    right.device.destroy_qp(right_qp);
  }

  static void post(qp::QueuePair& qp, const queue::SendRequest& r) {
    const Guard guard(qp.lock());
    ASSERT_EQ(qp.post_send(r), requester::Posted::kOk);
  }
  // Exchanges packets until nothing is left to receive.
  void exchange() {
    for (std::size_t moved = 1; moved != 0;) {
      moved = right.receive(++time, device::Acknowledge::kNow);
      moved += left.receive(++time, device::Acknowledge::kNow);
    }
  }
  static void fill(Host& host) {
    for (std::size_t i = 0; i < kMemory; ++i) host.bytes[i] = static_cast<std::uint8_t>(i * 7 / 5);
  }
  void expect_arrived(std::size_t length) {
    EXPECT_EQ(std::memcmp(left.bytes.data(), right.bytes.data(), length), 0);
  }
  // A WRITE from the left's memory into the right's.
  queue::SendRequest write_of(const queue::Sge& sge) {
    queue::SendRequest r;
    r.opcode = queue::WorkOpcode::kWrite;
    r.flags = queue::kSignaled;
    r.sges = {&sge, 1};
    r.remote_address = reinterpret_cast<std::uint64_t>(right.bytes.data());
    r.remote_key = right.key;
    return r;
  }
  // A READ from the right's memory into the left's.
  queue::SendRequest read_of(const queue::Sge& sge) {
    queue::SendRequest r = write_of(sge);
    r.opcode = queue::WorkOpcode::kRead;
    return r;
  }
  queue::Sge piece(std::uint32_t length) {
    return {reinterpret_cast<std::uint64_t>(left.bytes.data()), length, left.key};
  }
  // Returns how many requests of the left have completed.
  std::size_t completed(queue::Status status = queue::Status::kSuccess) {
    std::size_t count = 0;
    for (queue::Completion c; left.send_cq.poll_one(c); ++count) EXPECT_EQ(c.status, status);
    return count;
  }

  Host left{0}, right{1};
  qp::QueuePair* left_qp = left.create_qp();
  qp::QueuePair* right_qp = right.create_qp();
  TimeNs time = 1'000'000;
};

}  // namespace verbena
