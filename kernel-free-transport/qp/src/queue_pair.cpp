// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/qp/queue_pair.hpp"

namespace verbena::qp {
namespace {

const char* name_of(wire::WireTransport transport) {
  static constexpr const char* kNames[] = {"RC", "UC", "RD", "UD", "CNP", "XRC"};
  static_assert(static_cast<int>(wire::WireTransport::kXrc) == 5);
  return kNames[static_cast<std::size_t>(transport)];
}

constexpr unsigned bit(State state) { return 1u << static_cast<unsigned>(state); }
// The states in which requests are accepted, and those in which answers are.
constexpr unsigned kReceives =
    bit(State::kRtr) | bit(State::kRts) | bit(State::kSqd) | bit(State::kSqe);
constexpr unsigned kAwaitsAnswers = bit(State::kRts) | bit(State::kSqd);

void fill(queue::Endpoint& e, const QueuePairOptions& o, const Surroundings& around) {
  e.transport = o.transport;
  e.number = e.shown_number = o.number;
  e.domain = o.domain;
  e.memory = around.memory;
  e.events = around.events;
  e.port = around.port;
  e.drops = &around.port->drops;
  e.shared = around.shared;
  e.obeys_marks = around.obeys_marks;
  e.send_cq = o.send_cq;
  e.receive_cq = o.receive_cq;
  e.cookie = o.cookie;
  e.signal_all = o.signal_all;
  e.origin.created = o.created;
  e.acknowledges_at_once = o.transport == Transport::kXrcReceive;
  e.blocks_own_multicast = o.blocks_own_multicast;
}

// Says whether the P_Keys are equal except for the membership bit and not both limited members
// (IBTA Vol 1, 10.9.3).
bool pkeys_match(std::uint16_t a, std::uint16_t b) {
  return ((a ^ b) & 0x7fff) == 0 && ((a | b) & 0x8000) != 0;
}

}  // namespace

QueuePair::QueuePair(const QueuePairOptions& options, const Surroundings& surroundings)
    : around_(surroundings), requester_(endpoint_, options.send, this), responder_(endpoint_) {
  fill(endpoint_, options, surroundings);
  if (options.shared != nullptr) {
    endpoint_.receives = &options.shared->queue;
    endpoint_.srq = options.shared;
  } else if (options.transport != Transport::kXrcSend &&
             options.transport != Transport::kXrcReceive) {
    queue::ReceiveQueue::Options receive;
    receive.capacity = options.receive_capacity;
    receive.max_sges = options.receive_max_sges;
    receive.cookie = options.cookie;
    own_receives_ = std::make_unique<queue::ReceiveQueue>(receive, *surroundings.events);
    endpoint_.receives = own_receives_.get();
  }
  open_accounts();
  responder_.set_attributes({0, 0, options.xrc_domain});
  if (options.shares_domain) relay_ = std::make_unique<relay::Relay>(endpoint_, responder_);
}

// Opens the accounts that count the slots of its queues that completions free.
void QueuePair::open_accounts() {
  queue::CompletionQueue* const send_cq = endpoint_.send_cq;
  if (send_cq != nullptr) {
    endpoint_.send_account = send_cq->open_account();
    requester_.count_freed_by(&send_cq->freed(endpoint_.send_account));
  }
  if (endpoint_.receives != nullptr && endpoint_.receive_cq != nullptr) {
    endpoint_.receive_account = endpoint_.receives->attach(*endpoint_.receive_cq);
  }
}

QueuePair::~QueuePair() {
  if (endpoint_.send_cq != nullptr) endpoint_.send_cq->close_account(endpoint_.send_account);
  if (endpoint_.receives != nullptr && endpoint_.receive_cq != nullptr) {
    endpoint_.receives->detach(*endpoint_.receive_cq);
  }
}

bool QueuePair::may_post_send() const {
  switch (attributes_.state) {
    case State::kReset:
    case State::kInit:
    case State::kRtr:
      return false;
    default:
      return endpoint_.transport != Transport::kXrcReceive;
  }
}

requester::Posted QueuePair::post_send(const queue::SendRequest& request) {
  const requester::Posted posted = requester_.post(request);
  if (posted != requester::Posted::kOk) return posted;
  if (attributes_.state == State::kError || attributes_.state == State::kSqe) requester_.flush();
  return posted;
}

PostedReceive QueuePair::post_receive(const queue::RecvRequest& request) {
  if (!own_receives_) return PostedReceive::kNoQueue;
  if (seen_state_.read() == State::kReset) return PostedReceive::kWrongState;
  const PostedReceive posted = own_receives_->post(request);
  if (posted != PostedReceive::kOk) return posted;
  // The receive was posted before the state was read: either this sees ERROR, or the flush sees the
  // receive.
  if (seen_state_.read() == State::kError) {
    const Guard guard(lock_);
    responder_.flush();
  }
  return PostedReceive::kOk;
}

void QueuePair::handle_packet(const wire::PacketView& packet, const wire::RxDatagram& datagram,
                              TimeNs now) {
  const auto drop = [this](DropReason why) { endpoint_.drops->count(why); };
  if (packet.row->transport != wire::wire_transport(endpoint_.transport)) {
    return drop_of_other_type(packet, datagram.source);
  }
  const State s = attributes_.state;
  if ((bit(s) & (packet.row->request ? kReceives : kAwaitsAnswers)) == 0) {
    return drop_in_this_state(packet);
  }
  if (!pkeys_match(packet.bth.pkey, endpoint_.pkey)) [[unlikely]] {
    return drop_foreign_pkey(packet.bth.pkey);
  }
  if (!comes_from_peer(datagram)) [[unlikely]]
    return drop_foreign_source(datagram.source);
  if (attributes_.migration != Migration::kMigrated) [[unlikely]]
    follow_migration(packet);
  const wire::PiggybackedAck* ack = packet.piggybacked_ack;
  if (ack != nullptr && !take_piggybacked_ack(*ack, now)) [[unlikely]] {
    return drop(DropReason::kBadQpState);
  }
  if (packet.row->request) {
    if (endpoint_.transport == Transport::kXrcSend) return drop(DropReason::kWrongTransport);
    if (s == State::kRtr && !established_reported_) [[unlikely]] {
      established_reported_ = true;
      endpoint_.events->on_async_event(queue::AsyncEvent::kCommunicationEstablished,
                                       endpoint_.cookie);
    }
    if (relay_) [[unlikely]] {
      relay_->handle_request(packet, now);
    } else {
      responder_.handle_request(packet, datagram);
    }
    start_rendezvous();
  } else {
    if (!is_reliable(endpoint_.transport) || endpoint_.transport == Transport::kXrcReceive) {
      return drop(DropReason::kWrongTransport);
    }
    requester_.handle_response(packet, now);
    start_rendezvous();
    check_drained();
  }
  settle();
  if constexpr (kRecountInvariants) VERBENA_CHECK(is_consistent());
}

// The sender of a datagram never learns that it was dropped, and that of another request only that
// nobody answers.
void QueuePair::drop_of_other_type(const wire::PacketView& packet, const IpAddress& source) {
  if (packet.row->transport == wire::WireTransport::kCnp) return;
  endpoint_.drops->count(DropReason::kWrongTransport);
  if (!packet.row->request) return;
  if (packet.row->deth) {
    return queue::explain(endpoint_,
                          "a datagram of QPN 0x%06x at %s was dropped: only UD queue pairs receive "
                          "datagrams",
                          packet.deth().source_qp.value(), source.to_string().c_str());
  }
  ShortText peer;
  if (endpoint_.peer.value() != 0) peer.add(" (this one's peer is 0x%06x)", endpoint_.peer.value());
  queue::explain(endpoint_,
                 "a request from %s was dropped: its queue pair is of type %s, and two that are "
                 "connected must be of one type%s",
                 source.to_string().c_str(), name_of(packet.row->transport), peer.c_str());
}

// The sender of another request than a datagram learns the state when it asks why nobody answers.
void QueuePair::drop_in_this_state(const wire::PacketView& packet) {
  endpoint_.drops->count(DropReason::kBadQpState);
  if (!packet.row->deth) return;
  queue::explain(endpoint_,
                 "a datagram of QPN 0x%06x was dropped: this queue pair is in state %s, but "
                 "receives only in RTR, RTS, SQD and SQE",
                 packet.deth().source_qp.value(), to_string(attributes_.state));
}

void QueuePair::drop_foreign_pkey(std::uint16_t pkey) {
  endpoint_.drops->count(DropReason::kBadPkey);
  queue::explain(endpoint_,
                 "a packet was dropped: its P_Key 0x%04x does not match 0x%04x, this queue pair's: "
                 "both ends' pkey_index must name the same partition",
                 pkey, endpoint_.pkey);
}

void QueuePair::drop_foreign_source(const IpAddress& source) {
  endpoint_.drops->count(DropReason::kWrongPeer);
  queue::explain(endpoint_, "a packet from %s was dropped: the connected peer is at %s",
                 source.to_string().c_str(), endpoint_.destination.address.to_string().c_str());
}

// Handles the acknowledgement that precedes an accepted packet. Returns false if the packet must
// not be handled after that.
bool QueuePair::take_piggybacked_ack(const wire::PiggybackedAck& ack, TimeNs now) {
  const State s = attributes_.state;
  if (endpoint_.transport != Transport::kRc) {
    endpoint_.drops->count(DropReason::kWrongTransport);
  } else if ((bit(s) & kAwaitsAnswers) == 0) {
    endpoint_.drops->count(DropReason::kBadQpState);
  } else {
    requester_.handle_piggybacked_ack(ack, now);
    start_rendezvous();
    check_drained();
    settle();
  }
  return attributes_.state == s;
}

void QueuePair::handle_timeout(TimeNs now) {
  requester_.handle_timeout(now);
  settle();
}

TimeNs QueuePair::deadline() const { return requester_.deadline(); }

QueuePair::Left QueuePair::poll_transmit(wire::TxBatch& out, TimeNs now) {
  endpoint_.packing_of_batch.reset();
  // An acknowledgement goes before posted requests, so that a peer that gets both learns first that
  // its own request is done. It fits into an empty batch.
  if (is_reliable(endpoint_.transport) && requester_.has_urgent() && responder_.may_acknowledge()) {
    responder_.acknowledge(out);
  }
  Left left = Left::kNothing;
  if (requester_.poll_transmit(out, now)) {
    left = Left::kRequests;
  } else if ((relay_ && relay_->poll_transmit(out)) || responder_.poll_transmit(out)) {
    left = Left::kAnswers;
  }
  if (relay_) {
    relay_->resume(now);
    if (left == Left::kNothing && relay_->has_packets()) left = Left::kAnswers;
  }
  check_drained();
  settle();
  return left;
}

void QueuePair::note_gone(const wire::TxBatch& sent) {
  const wire::TxBatch::Packet& packet = *sent.first_gone();
  const wire::BthView bth(sent.start_of(packet).data());
  if (wire::row_of(bth.opcode()).request) {
    requester_.note_gone(bth.psn());
  } else {
    responder_.note_gone(bth.psn(), packet.borrowed_length);
  }
  settle();
}

void QueuePair::start_announced() {
  auto& waiting = endpoint_.rendezvous;
  std::size_t started = 0;
  while (started < waiting.size() && requester_.post_rendezvous(waiting[started])) ++started;
  if (started != 0) {
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(started));
  }
}

void QueuePair::check_drained() {
  if (attributes_.state != State::kSqd || drain_reported_ || !requester_.is_drained()) return;
  drain_reported_ = true;
  if (attributes_.sqd_notify) {
    endpoint_.events->on_async_event(queue::AsyncEvent::kSqDrained, endpoint_.cookie);
  }
}

// --- an XRC receiver of a domain that other processes share --------------------------------------

void QueuePair::handle_answer(Qpn line, const wire::PacketView& packet,
                              const wire::RxDatagram& datagram, TimeNs now) {
  const State s = attributes_.state;
  const bool receives = s == State::kRtr || s == State::kRts || s == State::kSqd;
  if (!receives || !relay_) return endpoint_.drops->count(DropReason::kBadQpState);
  relay_->handle_answer(line, packet, datagram, now);
  settle();
}

void QueuePair::connect_line(Qpn line, const wire::Destination& destination, Qpn proxy,
                             TimeNs now) {
  if (!relay_) return;
  relay_->connect(line, destination, proxy, now);
  settle();
}

void QueuePair::refuse_line(Qpn line, TimeNs now) {
  if (!relay_) return;
  relay_->refuse(line, now);
  settle();
}

void QueuePair::become_proxy(const queue::ProxyQp& wanted, const wire::Destination& receiver) {
  endpoint_.peer = wanted.line;
  endpoint_.shown_number = wanted.receiver;
  endpoint_.shown_peer = wanted.peer;
  endpoint_.peer_lid = wanted.peer_lid;
  endpoint_.service_level = wanted.service_level;
  lead_to(receiver);
  endpoint_.mtu = wanted.mtu;
  endpoint_.access_flags = wanted.access_flags;
  const responder::ResponderAttributes& known = responder_.attributes();
  const bool resized = known.max_dest_rd_atomic != wanted.max_dest_rd_atomic;
  responder_.set_attributes({wanted.max_dest_rd_atomic, wanted.min_rnr_timer, known.xrc_domain},
                            resized);
  if (attributes_.state != State::kReset) return;
  attributes_.dest_qpn = wanted.line;
  attributes_.path.destination = receiver;
  attributes_.rq_psn = endpoint_.origin.first_response = wanted.first;
  responder_.start(wanted.first);
  established_reported_ = true;
  set_state(State::kRtr);
}

}  // namespace verbena::qp
