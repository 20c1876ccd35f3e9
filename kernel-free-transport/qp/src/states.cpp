// SPDX-License-Identifier: BSD-2-Clause
// What each state transition of a queue pair does.
#include "verbena/qp/queue_pair.hpp"

namespace verbena::qp {

using queue::AsyncEvent;

namespace {

// Drops attributes that concern only the other end: programs give those of RC at both ends of XRC.
std::uint32_t without_foreign(Transport transport, std::uint32_t mask) {
  switch (transport) {
    case Transport::kXrcSend:
      return mask & ~(kMaskMaxDestRdAtomic | kMaskMinRnrTimer);
    case Transport::kXrcReceive:
      return mask & ~(kMaskMaxRdAtomic | kMaskRetryCount | kMaskRnrRetry);
    default:
      return mask;
  }
}

}  // namespace

std::optional<Refused> QueuePair::modify(const Attributes& wanted, std::uint32_t mask,
                                         const TransitionLimits& limits, TimeNs now) {
  mask = without_foreign(endpoint_.transport, mask);
  if (auto refused = check_transition(endpoint_.transport, attributes_, wanted, mask, limits)) {
    queue::explain(endpoint_, "%s", refused->reason.c_str());
    return refused;
  }
  const State from = attributes_.state;
  const State to = (mask & kMaskState) != 0 ? wanted.state : from;
  const bool moves = (mask & kMaskPathMigration) != 0 && wanted.migration == Migration::kMigrated &&
                     attributes_.migration == Migration::kArmed;
  apply(attributes_, wanted, mask);
  attributes_.state = from;
  take_attributes(mask);
  if (relay_ && (mask & (kMaskAccessFlags | kMaskMaxDestRdAtomic | kMaskMinRnrTimer)) != 0) {
    relay_->change_attributes(now);
  }
  if (moves) migrate();
  if (to == State::kReset) {
    enter_reset();
  } else if (to == State::kRtr && from == State::kInit) {
    set_port_mtu(limits.active_mtu);
    enter_rtr();
  } else if (to == State::kRts && from != State::kRts) {
    enter_rts(from);
  } else if (to == State::kSqd && from != State::kSqd) {
    requester_.set_draining(true);
    drain_reported_ = false;
    // The flag is an argument of this call, not a lasting attribute.
    attributes_.sqd_notify = (mask & kMaskSqdNotify) != 0 && wanted.sqd_notify;
  } else if (to == State::kError && from != State::kError) {
    endpoint_.reason.note("ibv_modify_qp moved it to the error state");
    enter_error();
    return std::nullopt;
  }
  set_state(to);
  const bool is_connected = to == State::kRtr || (to == State::kRts && from != State::kSqd);
  if (to != from && is_connected) tell_state();
  check_drained();
  return std::nullopt;
}

void QueuePair::set_state(State next) {
  attributes_.state = next;
  attributes_.current_state = next;
  seen_state_.publish(next);
}

// Passes changed attributes to both halves.
void QueuePair::take_attributes(std::uint32_t mask) {
  if (mask & kMaskAccessFlags) endpoint_.access_flags = attributes_.access_flags;
  if (mask & kMaskQkey) endpoint_.qkey = attributes_.qkey;
  if (mask & kMaskPathMtu) endpoint_.mtu = mtu_bytes(attributes_.path_mtu);
  if (mask & kMaskDestQpn) endpoint_.peer = endpoint_.shown_peer = attributes_.dest_qpn;
  if (mask & kMaskPath) take_path(attributes_.path);
  if (mask & kMaskPathMigration) take_migration_state();
  requester_.set_reliability({attributes_.timeout, attributes_.retry_count, attributes_.rnr_retry,
                              attributes_.max_rd_atomic});
  if (mask & (kMaskMaxDestRdAtomic | kMaskMinRnrTimer)) {
    responder::ResponderAttributes r = responder_.attributes();
    const bool resized = r.max_dest_rd_atomic != attributes_.max_dest_rd_atomic;
    r.max_dest_rd_atomic = attributes_.max_dest_rd_atomic;
    r.min_rnr_timer = attributes_.min_rnr_timer;
    responder_.set_attributes(r, resized);
  }
}

void QueuePair::take_path(const PathAttributes& path) {
  endpoint_.peer_lid = path.dlid;
  endpoint_.service_level = path.service_level;
  lead_to(path.destination);
}

void QueuePair::lead_to(const wire::Destination& destination) {
  endpoint_.destination = destination;
  endpoint_.path = around_.transmitter->path_to(destination, endpoint_.peer);
}

void QueuePair::enter_reset() {
  // Empties the completion queues first: then the work queues are empty, and no completion frees
  // slots.
  if (endpoint_.send_cq != nullptr) {
    endpoint_.send_cq->purge(endpoint_.number.value());
    endpoint_.send_cq->disown(endpoint_.send_account);
  }
  if (endpoint_.receive_cq != nullptr && endpoint_.receive_cq != endpoint_.send_cq) {
    endpoint_.receive_cq->purge(endpoint_.number.value());
  }
  requester_.reset();
  responder_.reset();
  if (relay_) relay_->reset();
  if (own_receives_) own_receives_->clear();
  queue::tell_rest(endpoint_);
  endpoint_.flushed_sends = endpoint_.flushed_receives = endpoint_.timeouts = {};
  endpoint_.failure.reset();
  endpoint_.reason.clear();
  endpoint_.rendezvous.clear();
  attributes_ = Attributes{};
  established_reported_ = false;
  endpoint_.migrated = true;
  endpoint_.alternate_armed = endpoint_.migration_wanted = false;
}

void QueuePair::enter_rtr() {
  // UD has no peer; its path only tells how much a receiver holds.
  if (endpoint_.transport == Transport::kUd) lead_to({});
  // The two PSNs are the peer's, because a relay passes on the peer's requests.
  endpoint_.origin = {endpoint_.origin.created, endpoint_.origin.lives + 1, attributes_.rq_psn,
                      attributes_.rq_psn, endpoint_.mtu};
  responder_.start(attributes_.rq_psn);
  if (relay_) relay_->start(attributes_.rq_psn);
  established_reported_ = false;
}

void QueuePair::enter_rts(State from) {
  requester_.set_draining(false);
  if (from == State::kSqd) return;
  if (from == State::kSqe) {
    endpoint_.reason.clear();
    requester_.set_sending(true);
    return;
  }
  // Comes before start(): if it throws for lack of memory, nothing must be sent.
  requester_.share_path(around_.shares->to(endpoint_.destination.address, endpoint_.peer.slot()));
  endpoint_.origin.first_request = attributes_.sq_psn;
  requester_.start(attributes_.sq_psn);
}

void QueuePair::enter_error() {
  set_state(State::kError);
  tell_state();
  requester_.set_sending(false);
  requester_.flush();
  responder_.flush();
  if (relay_) relay_->stop();
  give_up_rendezvous();
  if (endpoint_.receives != nullptr && endpoint_.receives->is_shared()) {
    endpoint_.events->on_async_event(AsyncEvent::kLastWqeReached, endpoint_.cookie);
  }
}

// Completes matched rendezvous messages whose data will never be fetched.
void QueuePair::give_up_rendezvous() {
  for (const queue::Rendezvous& r : endpoint_.rendezvous) {
    queue::Completion c;
    c.id = r.receive.id;
    c.status = queue::Status::kTagRendezvousIncomplete;
    c.opcode = queue::CompletionOpcode::kTagReceive;
    c.qpn = endpoint_.number.value();
    c.tag = r.tag;
    c.tag_private = r.tag_private;
    endpoint_.srq->cq->push(c, false);
  }
  endpoint_.rendezvous.clear();
}

void QueuePair::fail(const char* reason) {
  if (attributes_.state == State::kError || attributes_.state == State::kReset) return;
  endpoint_.reason.note(reason);
  enter_error();
}

void QueuePair::settle_reported() {
  if (endpoint_.migration_wanted) migrate();
  if (!endpoint_.failure) return;
  const queue::FatalFailure failure = *endpoint_.failure;
  endpoint_.failure.reset();
  if (attributes_.state == State::kError) return;
  if (failure.send_queue_only) {
    set_state(State::kSqe);
    tell_state();
    requester_.flush();
    return;
  }
  enter_error();
  if (failure.event) endpoint_.events->on_async_event(*failure.event, endpoint_.cookie);
}

// --- automatic path migration (IBTA Vol 1, 17.2.8) -----------------------------------------------

// The two ends load an alternate path and REARM. When each has heard the other's wish (packets
// without the migrated bit), they are ARMED. The end whose retries are exhausted moves to the
// alternate path and says so in every packet; the other end follows.
//
//   MIGRATED --the program rearms--> REARM --the peer rearmed--> ARMED --failure or peer-->
//   MIGRATED

bool QueuePair::comes_from_peer(const wire::RxDatagram& datagram) const {
  if (endpoint_.transport == Transport::kUd) return true;
  if (datagram.source == endpoint_.destination.address) {
    // Other processes may answer for an XRC queue pair, each on a path of its own.
    const bool is_xrc =
        endpoint_.transport == Transport::kXrcSend || endpoint_.transport == Transport::kXrcReceive;
    return datagram.came_by_ring || is_xrc || !endpoint_.path->hears_by_ring(endpoint_.number);
  }
  return attributes_.migration == Migration::kArmed && attributes_.alternate.resolved &&
         datagram.source == attributes_.alternate.destination.address;
}

void QueuePair::take_migration_state() {
  endpoint_.migrated = attributes_.migration == Migration::kMigrated;
  endpoint_.alternate_armed = attributes_.migration == Migration::kArmed;
}

// A queue pair without an alternate path is never armed: it has nowhere to go.
void QueuePair::follow_migration(const wire::PacketView& packet) {
  if (attributes_.migration == Migration::kRearm && !packet.bth.migreq &&
      attributes_.alternate.resolved) {
    attributes_.migration = Migration::kArmed;
    take_migration_state();
  } else if (attributes_.migration == Migration::kArmed && packet.bth.migreq) {
    migrate();
  }
}

void QueuePair::move_to_alternate() {
  attributes_.path = attributes_.alternate;
  attributes_.pkey_index = attributes_.alternate_pkey_index;
  attributes_.port = attributes_.alternate.port;
  if (attributes_.alternate_timeout != 0) attributes_.timeout = attributes_.alternate_timeout;
  attributes_.migration = Migration::kMigrated;
  take_migration_state();
  take_attributes(kMaskPath);
}

// Migrates because of a failure, the peer or the program. The event always comes, because the
// application may learn of the migration only by the event.
void QueuePair::migrate() {
  endpoint_.migration_wanted = false;
  move_to_alternate();
  endpoint_.events->on_async_event(queue::AsyncEvent::kPathMigrated, endpoint_.cookie);
}

}  // namespace verbena::qp
