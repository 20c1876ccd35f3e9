// SPDX-License-Identifier: BSD-2-Clause
// An XRC receive queue pair of a domain that other processes share: what concerns its relay.
#include "verbena/qp/queue_pair.hpp"

namespace verbena::qp {

void QueuePair::handle_answer(Qpn line, const wire::PacketView& packet,
                              const wire::RxDatagram& datagram, TimeNs now) {
  const State s = attributes_.state;
  const bool receives = s == State::kRtr || s == State::kRts || s == State::kSqd;
  if (!receives || !relay_) return endpoint_.drops->count(DropReason::kBadQpState);
  relay_->handle_answer(line, packet, datagram, now);
  settle();
}

void QueuePair::connect_line(Qpn line, const wire::Destination& destination, Qpn stand_in,
                             TimeNs now) {
  if (!relay_) return;
  relay_->connect(line, destination, stand_in, now);
  settle();
}

void QueuePair::refuse_line(Qpn line, TimeNs now) {
  if (!relay_) return;
  relay_->refuse(line, now);
  settle();
}

void QueuePair::become_stand_in(const queue::StandIn& wanted, const wire::Destination& receiver) {
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
