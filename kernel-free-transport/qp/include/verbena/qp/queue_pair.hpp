// SPDX-License-Identifier: BSD-2-Clause
// A queue pair: one requester, one responder, a state. The caller must hold the lock (`lock()`) in
// every member function, except the constructor and those marked otherwise, because usually several
// calls belong together. A queue pair sends nothing itself, and knows only the time that it is
// given.
//
//   RESET → INIT → RTR → RTS ⇄ SQD        any state → RESET, any but RESET → ERROR
//                         ↘ SQE → RTS     (UC and UD, after a failed send)
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "verbena/base/lock.hpp"
#include "verbena/qp/attributes.hpp"
#include "verbena/qp/held_ack.hpp"
#include "verbena/queue/endpoint.hpp"
#include "verbena/relay/relay.hpp"
#include "verbena/requester/requester.hpp"
#include "verbena/responder/responder.hpp"

namespace verbena::qp {

struct QueuePairOptions {
  Transport transport = Transport::kRc;
  Qpn number;
  memory::DomainId domain = 0;
  queue::CompletionQueue* send_cq = nullptr;
  queue::CompletionQueue* receive_cq = nullptr;
  queue::SharedReceive* shared = nullptr;  // an SRQ instead of its own receive queue
  std::uint32_t xrc_domain = 0;            // XRC receive side
  bool shares_domain = false;              // other processes may have SRQs in that domain
  requester::SendQueue::Options send;
  std::uint32_t receive_capacity = 0;
  std::uint32_t receive_max_sges = 1;
  bool signal_all = false;
  std::uint32_t created = 0;  // the n-th of its process (wire::Origin)
  bool blocks_own_multicast = false;
  void* cookie = nullptr;
};

// What a queue pair gets from its device.
struct Surroundings {
  memory::Registry* memory = nullptr;
  queue::EventSink* events = nullptr;
  PortCounters* port = nullptr;
  queue::SharedReceiveDirectory* shared = nullptr;
  requester::FlowShares* shares = nullptr;
  wire::Transmitter* transmitter = nullptr;
  const Published<bool>* obeys_marks = nullptr;  // wire::Bth::mark
};

using PostedReceive = queue::ReceiveQueue::Posted;

class QueuePair {
 public:
  QueuePair(const QueuePairOptions& options, const Surroundings& surroundings);
  ~QueuePair();

  Lock& lock() noexcept { return lock_; }
  Qpn number() const noexcept { return endpoint_.number; }              // without the lock
  Transport transport() const noexcept { return endpoint_.transport; }  // without the lock
  void* cookie() const noexcept { return endpoint_.cookie; }            // without the lock

  State state() const { return attributes_.state; }
  const Attributes& attributes() const { return attributes_; }
  std::optional<Refused> modify(const Attributes& wanted, std::uint32_t mask,
                                const TransitionLimits& limits, TimeNs now);
  // Moves to ERROR after a failure outside of the queue pair (the device died), for this reason.
  void fail(const char* reason);
  // UD has no path MTU attribute: a datagram may have the port's MTU.
  void set_port_mtu(Mtu mtu) {
    if (endpoint_.transport == Transport::kUd) endpoint_.mtu = mtu_bytes(mtu);
  }

  bool may_post_send() const;  // RTS and later; ERROR and SQE flush at once
  requester::Posted post_send(const queue::SendRequest& request);
  // Call it without the lock: it takes the receive queue's lock, and in ERROR the queue pair's.
  PostedReceive post_receive(const queue::RecvRequest& request);

  // Handles a packet for this queue pair, which is already parsed.
  void handle_packet(const wire::PacketView& packet, const wire::RxDatagram& datagram, TimeNs now);
  // For the relay of an XRC receiver, and for a proxy.
  void handle_answer(Qpn line, const wire::PacketView& packet, const wire::RxDatagram& datagram,
                     TimeNs now);
  void connect_line(Qpn line, const wire::Destination& destination, Qpn proxy, TimeNs now);
  void refuse_line(Qpn line, TimeNs now);
  void become_proxy(const queue::ProxyQp& wanted, const wire::Destination& receiver);
  bool has_relay() const noexcept { return relay_ != nullptr; }  // without the lock

  void handle_timeout(TimeNs now);
  TimeNs deadline() const;
  // What the batch could not take. kRequests: requests, perhaps answers too; kAnswers: only
  // answers.
  enum class Left : std::uint8_t { kNothing, kAnswers, kRequests };
  Left poll_transmit(wire::TxBatch& out, TimeNs now);
  // Sets the ACK request in the batch's last request, because no more requests follow for now.
  void request_ack(wire::TxBatch& out) {
    requester_.request_ack(out);
    settle();
  }
  // The batch was sent, but memory that it borrowed was gone (TxBatch::first_gone): the operation
  // that needed that memory fails.
  [[gnu::cold]] void note_gone(const wire::TxBatch& sent);

  bool wants_to_transmit() const {
    return requester_.has_urgent() || responder_.has_pending_answers() || relays();
  }
  // Says whether there is only an acknowledgement to send, which may wait to travel with data.
  bool only_acknowledges() const {
    return !requester_.has_urgent() && responder_.has_pending_answers() &&
           !responder_.has_urgent_answers() && !relays();
  }
  // Says whether there are only posted requests to send.
  bool only_requests() const {
    return requester_.has_posted() && !responder_.has_pending_answers() && !relays();
  }
  // Prepares for destruction: gives up its turn and its receive, and tells the remaining events.
  void leave_queue() {
    requester_.give_up_turn();
    responder_.give_up_receive();
    if (relay_) relay_->reset();
    queue::tell_rest(endpoint_);
  }
  void forget_shared(const queue::SharedReceive* shared) { responder_.forget(shared); }

  // Returns the counts of messages whose sending began after the last call.
  SentCounters::Messages take_begun() noexcept { return requester_.take_begun(); }

  const requester::Requester& requester() const { return requester_; }
  const responder::Responder& responder() const { return responder_; }
  // Returns the PSN of the next request that is expected from the peer.
  Psn expected_psn() const { return relay_ ? relay_->expected_psn() : responder_.expected_psn(); }
  const queue::Endpoint& endpoint() const { return endpoint_; }
  queue::ReceiveQueue* receive_queue() const { return endpoint_.receives; }
  bool is_consistent() const { return requester_.is_consistent(); }

  // Members of the device's lists (PendingSenders, TimerQueue), under their rules and not under the
  // lock unless marked.
  QueuePair* next_in_list = nullptr;
  Published<bool> is_listed{false};
  QueuePair* next_touched = nullptr;
  bool is_touched = false;
  TimeNs armed_deadline = kNever;  // under the lock
  HeldAck held;                    // under the lock
  bool is_holding = false;         // in the device's list of held acknowledgements

 private:
  void open_accounts();
  // states.cpp
  void set_state(State next);
  void tell_state() const {
    queue::tell_state(endpoint_, static_cast<std::uint8_t>(attributes_.state));
  }
  void enter_reset();
  void enter_rtr();
  void enter_rts(State from);
  void enter_error();
  void give_up_rendezvous();
  void take_attributes(std::uint32_t mask);
  void take_path(const PathAttributes& path);
  void lead_to(const wire::Destination& destination);
  // Acts on what a half has reported.
  void settle() {
    if (endpoint_.migration_wanted || endpoint_.failure) [[unlikely]]
      settle_reported();
  }
  void settle_reported();
  void check_drained();
  bool take_piggybacked_ack(const wire::PiggybackedAck& ack, TimeNs now);
  [[gnu::cold]] void drop_of_other_type(const wire::PacketView& packet, const IpAddress& source);
  [[gnu::cold]] void drop_in_this_state(const wire::PacketView& packet);
  [[gnu::cold]] void drop_foreign_pkey(std::uint16_t pkey);
  [[gnu::cold]] void drop_foreign_source(const IpAddress& source);
  bool relays() const { return relay_ && relay_->has_packets(); }
  // path migration
  bool comes_from_peer(const wire::RxDatagram& datagram) const;
  void follow_migration(const wire::PacketView& packet);
  void take_migration_state();
  void move_to_alternate();
  [[gnu::cold]] void migrate();
  // Hands matched announcements to the requester, as far as it has room.
  void start_rendezvous() {
    if (!endpoint_.rendezvous.empty()) [[unlikely]]
      start_announced();
  }
  void start_announced();

  Lock lock_;
  queue::Endpoint endpoint_;
  Surroundings around_;
  std::unique_ptr<queue::ReceiveQueue> own_receives_;
  requester::Requester requester_;
  responder::Responder responder_;
  std::unique_ptr<relay::Relay> relay_;
  Attributes attributes_;
  Published<State> seen_state_{State::kReset};  // for post_receive(), which has no lock
  bool drain_reported_ = false;
  bool established_reported_ = false;
};

}  // namespace verbena::qp
