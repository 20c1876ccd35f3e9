// SPDX-License-Identifier: BSD-2-Clause
// The engine of one opened device: its memory, its queue pairs, and the path of packets through
// them. Sans-IO: datagrams and the time come in through member functions, packets leave through
// the Transmitter, events through the EventSink.
//
// Threads. Posting, polling and registering may happen on any thread. Receiving, timers and the
// destruction of objects happen under the receive lock, one thread at a time:
//
//     if (device.receive_lock().try_lock()) {
//       ...device.handle_datagram(now, datagram)...      any number of times
//       device.finish_receive(now, Acknowledge::kUnlessAnswered);
//       device.receive_lock().unlock();
//     }
//
// Locks are taken in the order receive lock, queue pair, receive queue, completion queue, timers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "verbena/base/address_plan.hpp"
#include "verbena/base/drop_reason.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/base/port_counters.hpp"
#include "verbena/device/pending_senders.hpp"
#include "verbena/device/qp_table.hpp"
#include "verbena/device/shared_receives.hpp"
#include "verbena/device/timer_queue.hpp"
#include "verbena/memory/registry.hpp"
#include "verbena/qp/queue_pair.hpp"

namespace verbena::device {

struct DeviceOptions {
  std::uint32_t slot = 1;  // the upper bits of every queue pair number
  IpAddress address;       // of the port
  AddressPlan plan;
  qp::TransitionLimits limits;
  memory::MemoryPort* memory_port = nullptr;  // null: trusts every address
  std::uint32_t max_regions = 1u << 20;
  memory::Registry* memory = nullptr;  // of another device, which outlives this one; null: its own
  PortCounters* counters = nullptr;    // where it counts, outlives it, too; null: its own
  // From it come the numbers and keys that peers are given. Nobody else may know it.
  std::uint64_t seed = 0;
};

// When acknowledgements go that have no data to travel with. kNow: in this round. kUnlessAnswered:
// also, but where the application has often posted soon after them, they wait for that a while
// (qp/held_ack.hpp). kNowForPoster: in this round; but what is left of requests and would be little
// waits for those that will be posted next.
enum class Acknowledge : std::uint8_t { kNow, kUnlessAnswered, kNowForPoster };

class Device final : public queue::SharedReceiveDirectory, private requester::TurnSink {
 public:
  Device(const DeviceOptions& options, wire::Transmitter& transmitter, queue::EventSink& events);
  ~Device() override;

  // --- objects; from any thread ---
  memory::Registry& memory() { return memory_; }
  // Null when all queue pair numbers are taken (ask for a slot: add_slot). The number in `options`
  // is ignored.
  qp::QueuePair* create_qp(qp::QueuePairOptions options);
  void destroy_qp(qp::QueuePair* qp);
  void add_slot(std::uint32_t slot);
  std::optional<qp::Refused> modify_qp(qp::QueuePair& qp, const qp::Attributes& wanted,
                                       std::uint32_t mask, TimeNs now);
  // XRC SRQs are found by number; others need not be known here. Gives it its number; false when
  // all are taken (ask for a slot).
  bool add_shared(queue::SharedReceive& shared) { return shared_.add(shared); }
  void remove_shared(queue::SharedReceive& shared);
  queue::SharedReceive* find(std::uint32_t number,
                             std::uint32_t xrc_domain) const noexcept override {
    return shared_.find(number, xrc_domain);
  }
  bool is_own(std::uint32_t number) const noexcept override { return shared_.is_own(number); }

  // --- SRQs of other processes in an XRC domain (queue/events.hpp, relay/relay.hpp) ---
  // The answer to EventSink::on_proxy_wanted; what is late is ignored.
  void connect_line(Qpn receiver, Qpn line, const wire::Destination& destination, Qpn proxy,
                    TimeNs now);
  // There is none, or there is none any more.
  void refuse_line(Qpn receiver, Qpn line, TimeNs now);
  // A queue pair that stands in for a receiver of another process, where that one is to be reached.
  // Null when all queue pair numbers are taken.
  qp::QueuePair* create_proxy(const queue::ProxyQp& wanted, const wire::Destination& receiver);
  void change_proxy(qp::QueuePair& qp, const queue::ProxyQp& wanted,
                    const wire::Destination& receiver);
  void destroy_proxy(qp::QueuePair* qp);
  std::optional<Qpn> open_line(Qpn receiver) override;
  void close_line(Qpn line) override;

  // Every queue pair to ERROR, for this reason: the emulator died.
  void fail_all(const char* reason);
  void set_port_active(bool active);
  bool is_port_active() const { return port_active_.read_relaxed(); }
  // Whether a request that is marked (wire::Bth::mark) gets the NAK that the mark names. Faults do
  // this; from a network such marks mean nothing.
  void obey_marks(bool obeys) { obeys_marks_.publish(obeys); }
  // What path MTUs are held against from now on.
  void set_active_mtu(Mtu mtu) { active_mtu_.publish(mtu); }

  // --- posting; from any thread ---
  // Under qp.lock(): qp.post_send(...) any number of times, then without it:
  void doorbell(qp::QueuePair& qp, TimeNs now);
  // Or still under it: true if nothing is to be done, because an answer is due, to this queue pair
  // or to another one, that will bring it its turn, and what is posted until then can travel in one
  // send.
  bool defer(qp::QueuePair& qp);
  // Else this.
  void send_now(qp::QueuePair& qp, TimeNs now);

  // --- receiving and time; under the receive lock ---
  Lock& receive_lock() { return receive_lock_; }
  void handle_datagram(TimeNs now, const wire::RxDatagram& datagram);
  void handle_run(TimeNs now, const wire::RxRun& run);
  // A multicast packet for a member, with the group's GID as it was sent to.
  void handle_multicast(TimeNs now, wire::RxDatagram datagram, Qpn member);
  // Always, before the lock is released.
  void finish_receive(TimeNs now, Acknowledge acknowledge);
  void handle_timeouts(TimeNs now);

  // --- without a lock ---
  // Nobody is told when finish_receive has made it earlier, which it has if anything is held.
  TimeNs next_deadline() const { return std::min(timers_.earliest(), pending_.held_until()); }
  // Some queue pair's time has come, and not only that of an acknowledgement which is held.
  bool is_timer_due(TimeNs now) const { return timers_.earliest() <= now; }
  bool holds_any() const { return pending_.holds_any(); }
  bool has_work() const { return pending_.has_pushed(); }
  // What a finish_receive(kNow) would send, if it is to be the last.
  bool has_pending_acks() const { return has_work() || pending_.held_until() != kNever; }
  const DeviceOptions& options() const { return options_; }
  const qp::TransitionLimits& limits() const { return options_.limits; }
  PortCounters& counters() { return counters_; }
  // Visits the queue pair of this number, if there is one.
  template <typename F>
  void with_qp(Qpn number, F&& f) {
    const Guard guard(receive_lock_);
    if (qp::QueuePair* qp = table_.find(number)) f(*qp);
  }
  // Visits every queue pair (its lock is the visitor's to take).
  template <typename F>
  void for_each_qp(F&& f) {
    const Guard guard(receive_lock_);
    table_.for_each(f);
  }
  // At most so many of those behind this one; true: there are more.
  template <typename F>
  bool for_each_qp_behind(Qpn after, std::size_t most, F&& f) {
    const Guard guard(receive_lock_);
    return table_.for_each_behind(after, most, f);
  }

 private:
  struct TxBuffer;
  memory::Registry& make_memory(const DeviceOptions& options);
  void count_piggybacked_ack() noexcept {
    counters_.received.packets.add();
    counters_.received.bytes.add(wire::PiggybackedAck::kPacketSize);
  }
  void deliver(qp::QueuePair& qp, const wire::PacketView& packet, const wire::RxDatagram& datagram,
               TimeNs now);
  // XRC: SRQs of other processes
  void handle_answer(TimeNs now, const wire::PacketView& packet, const wire::RxDatagram& datagram);
  template <typename F>
  void with_line(Qpn receiver, Qpn line, TimeNs now, F&& use);
  void close_lines_of(const qp::QueuePair& receiver);
  // For UD, whose receivers are told where it came from.
  void name(wire::RxDatagram& datagram) const;
  // It stands for several. False: it cannot.
  bool count_merged(wire::PacketView& packet, std::uint32_t psns) noexcept;
  // What is left of a batch's data when others are full.
  enum class Rest : std::uint8_t { kGoes, kMayWait };
  // Under the queue pair's lock.
  void transmit(qp::QueuePair& qp, TimeNs now, Rest rest = Rest::kGoes);
  bool transmit_batches(std::size_t which, qp::QueuePair& qp, TimeNs now, Rest rest);
  void transmit_wanted(qp::QueuePair& qp, TimeNs now, Acknowledge acknowledge);
  void note_pending(qp::QueuePair& qp, TimeNs now);  // under its lock, too
  // Sends what is held whose time has come, or all.
  void release_held(TimeNs now, bool all);
  void on_turn(void* member) noexcept override;
  void rearm(qp::QueuePair& qp);  // under the queue pair's lock
  std::size_t take_buffer();      // which one

  DeviceOptions options_;
  UnpredictableRandom random_;  // of numbers; under the receive lock
  wire::Transmitter& transmitter_;
  queue::EventSink& events_;
  std::optional<PortCounters> own_counters_;
  PortCounters& counters_;
  std::optional<memory::Registry> own_memory_;
  memory::Registry& memory_;
  requester::FlowShares shares_{*this};
  Lock receive_lock_;
  QpTable table_;
  TimerQueue timers_;
  PendingSenders pending_;
  std::array<std::unique_ptr<TxBuffer>, SentCounters::kParts> buffers_;
  SharedReceives shared_;
  std::unordered_map<std::uint32_t, qp::QueuePair*> lines_;  // by number; under the receive lock
  Published<bool> port_active_{true};
  Published<bool> obeys_marks_{false};
  Published<Mtu> active_mtu_;
};

}  // namespace verbena::device
