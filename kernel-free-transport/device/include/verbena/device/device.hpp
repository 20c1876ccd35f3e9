// SPDX-License-Identifier: BSD-2-Clause
// The engine of one opened device: its memory, its queue pairs, and the path of packets through
// them. Sans-IO: datagrams and the time arrive as arguments, packets leave through the Transmitter
// and events through the EventSink.
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
  IpAddress address;       // the port's address
  AddressPlan plan;
  qp::TransitionLimits limits;
  memory::MemoryPort* memory_port = nullptr;  // null: trusts every address
  std::uint32_t max_regions = 1u << 20;
  memory::Registry* memory = nullptr;  // another device's, which outlives this one; null: its own
  PortCounters* counters = nullptr;    // where it counts; they outlive it; null: its own
  // The seed of the numbers and keys that peers are given. Peers must not know it.
  std::uint64_t seed = 0;
};

// When acknowledgements without data to travel with are sent. kNow: in this round. kUnlessAnswered:
// in this round, but they wait for a while where the application often posted soon after them
// (qp/held_ack.hpp). kNowForPoster: in this round; but if few requests are left, these wait for the
// next posts.
enum class Acknowledge : std::uint8_t { kNow, kUnlessAnswered, kNowForPoster };

class Device final : public queue::SharedReceiveDirectory, private requester::TurnSink {
 public:
  Device(const DeviceOptions& options, wire::Transmitter& transmitter, queue::EventSink& events);
  ~Device() override;

  // --- objects; from any thread ---
  memory::Registry& memory() { return memory_; }
  // Returns null if all queue pair numbers are taken (add_slot() adds more). The number in
  // `options` is ignored.
  qp::QueuePair* create_qp(qp::QueuePairOptions options);
  void destroy_qp(qp::QueuePair* qp);
  // Destroys the queue pairs that are left. Its owner calls this at the end, while everything that
  // the event sink calls is still there.
  void destroy_left();
  // Called in a forked child: from then on, queue pairs are left in memory when they are destroyed,
  // because a thread that does not exist there may have locked them.
  void abandon() noexcept { is_abandoned_ = true; }
  void add_slot(std::uint32_t slot);
  std::optional<qp::Refused> modify_qp(qp::QueuePair& qp, const qp::Attributes& wanted,
                                       std::uint32_t mask, TimeNs now);
  // Adds an XRC SRQ, which is found by its number, and assigns the number. Returns false if all
  // numbers are taken (add_slot() adds more). Other SRQs need not be added.
  bool add_shared(queue::SharedReceive& shared) { return shared_.add(shared); }
  void remove_shared(queue::SharedReceive& shared);
  queue::SharedReceive* find(std::uint32_t number,
                             std::uint32_t xrc_domain) const noexcept override {
    return shared_.find(number, xrc_domain);
  }
  bool is_own(std::uint32_t number) const noexcept override { return shared_.is_own(number); }

  // --- SRQs of other processes in an XRC domain (queue/events.hpp, relay/relay.hpp) ---
  // Answers EventSink::on_proxy_wanted. A late answer is ignored.
  void connect_line(Qpn receiver, Qpn line, const wire::Destination& destination, Qpn proxy,
                    TimeNs now);
  // Says that there is no proxy, or that it is gone.
  void refuse_line(Qpn receiver, Qpn line, TimeNs now);
  // Creates a queue pair that stands in for a receiver of another process, which is at `receiver`.
  // Returns null if all queue pair numbers are taken.
  qp::QueuePair* create_proxy(const queue::ProxyQp& wanted, const wire::Destination& receiver);
  void change_proxy(qp::QueuePair& qp, const queue::ProxyQp& wanted,
                    const wire::Destination& receiver);
  void destroy_proxy(qp::QueuePair* qp);
  std::optional<Qpn> open_line(Qpn receiver) override;
  void close_line(Qpn line) override;

  // Moves every queue pair to ERROR for this reason, because the emulator died.
  void fail_all(const char* reason);
  void set_port_active(bool active);
  bool is_port_active() const { return port_active_.read_relaxed(); }
  // Sets whether a marked request (wire::Bth::mark) gets the NAK that the mark names. Injected
  // faults use marks; marks from a network mean nothing.
  void obey_marks(bool obeys) { obeys_marks_.publish(obeys); }
  // Sets the limit for path MTUs from now on, and for datagrams.
  void set_active_mtu(Mtu mtu);

  // --- posting; from any thread ---
  // Call qp.post_send(...) under qp.lock() any number of times, then doorbell() without the lock.
  void doorbell(qp::QueuePair& qp, TimeNs now);
  // Instead of doorbell(), still under the lock: returns true if nothing else is to be done. Then
  // an answer that is due, to this queue pair or to another one, will give it its turn, and
  // requests that are posted until then can be sent together.
  bool defer(qp::QueuePair& qp);
  // Sends at once. Call it under the lock if defer() returned false.
  void send_now(qp::QueuePair& qp, TimeNs now);

  // --- receiving and time; under the receive lock ---
  Lock& receive_lock() { return receive_lock_; }
  void handle_datagram(TimeNs now, const wire::RxDatagram& datagram);
  void handle_run(TimeNs now, const wire::RxRun& run);
  // Handles a multicast packet for a member. The datagram has the GID of the group.
  void handle_multicast(TimeNs now, wire::RxDatagram datagram, Qpn member);
  // Must be called before the lock is released.
  void finish_receive(TimeNs now, Acknowledge acknowledge);
  void handle_timeouts(TimeNs now);

  // --- without a lock ---
  // Receiving may make this earlier without an event to the sink, if it holds an acknowledgement.
  TimeNs next_deadline() const { return std::min(timers_.earliest(), pending_.held_until()); }
  // Says whether a queue pair's timer is due. Held acknowledgements do not count.
  bool is_timer_due(TimeNs now) const { return timers_.earliest() <= now; }
  bool holds_any() const { return pending_.holds_any(); }
  bool has_work() const { return pending_.has_pushed(); }
  // Says whether a last finish_receive(kNow) would send something.
  bool has_pending_acks() const { return has_work() || pending_.held_until() != kNever; }
  const DeviceOptions& options() const { return options_; }
  const qp::TransitionLimits& limits() const { return options_.limits; }
  PortCounters& counters() { return counters_; }
  // Visits the queue pair with this number, if there is one.
  template <typename F>
  void with_qp(Qpn number, F&& f) {
    const Guard guard(receive_lock_);
    if (qp::QueuePair* qp = table_.find(number)) f(*qp);
  }
  // Visits every queue pair. The visitor takes its lock.
  template <typename F>
  void for_each_qp(F&& f) {
    const Guard guard(receive_lock_);
    table_.for_each(f);
  }
  // Visits at most `most` queue pairs behind `after`. Returns true if there are more.
  template <typename F>
  bool for_each_qp_behind(Qpn after, std::size_t most, F&& f) {
    const Guard guard(receive_lock_);
    return table_.for_each_behind(after, most, f);
  }

 private:
  // A batch that is being sent, and its bytes. A device has several, so that several threads can
  // send at once.
  struct TxBuffer {
    Lock lock;
    std::array<std::uint8_t, wire::TxBatch::kUsualBytes> bytes;
    wire::TxBatch batch{bytes};
  };
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
  // Fills in GIDs and LID, because UD receivers learn where a datagram came from.
  void name(wire::RxDatagram& datagram) const;
  // Counts a merged packet. Returns false if packets with its opcode cannot be merged.
  bool count_merged(wire::PacketView& packet, std::uint32_t psns) noexcept;
  // Says whether data that does not fill another batch goes at once or may wait.
  enum class Rest : std::uint8_t { kGoes, kMayWait };
  // Called under the queue pair's lock.
  void transmit(qp::QueuePair& qp, TimeNs now, Rest rest = Rest::kGoes);
  bool transmit_batches(std::size_t which, qp::QueuePair& qp, TimeNs now, Rest rest);
  void transmit_wanted(qp::QueuePair& qp, TimeNs now, Acknowledge acknowledge);
  void note_pending(qp::QueuePair& qp, TimeNs now);  // under the queue pair's lock
  // Sends held acknowledgements whose time has come, or all.
  void release_held(TimeNs now, bool all);
  void on_turn(void* member) noexcept override;
  void rearm(qp::QueuePair& qp);  // under the queue pair's lock
  std::size_t take_buffer();      // returns its index

  DeviceOptions options_;
  UnpredictableRandom random_;  // for numbers; under the receive lock
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
  bool is_abandoned_ = false;
  Published<bool> port_active_{true};
  Published<bool> obeys_marks_{false};
  Published<Mtu> active_mtu_;
};

}  // namespace verbena::device
