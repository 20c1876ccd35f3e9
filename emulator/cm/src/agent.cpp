// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm/agent.hpp"

#include "verbena/base/check.hpp"

namespace verbena::cm {

using enum ConnectionState;

Agent::Agent(std::uint64_t seed) : random_(seed) {}

CommId Agent::next_id() {
  for (;;) {
    const CommId id = random_.next32();
    if (id != 0 && !connections_.contains(id) && !sidrs_.contains(id)) return id;
  }
}

Connection* Agent::find(CommId id) {
  const auto it = connections_.find(id);
  return it == connections_.end() ? nullptr : it->second.get();
}

const Connection* Agent::connection(CommId id) const {
  const auto it = connections_.find(id);
  return it == connections_.end() ? nullptr : it->second.get();
}

const SidrExchange* Agent::sidr(CommId id) const {
  const auto it = sidrs_.find(id);
  return it == sidrs_.end() ? nullptr : it->second.get();
}

// --- bookkeeping ------------------------------------------------------------------------------

void Agent::move_deadline(CommId id, TimeNs before, TimeNs after) {
  if (before == after) return;
  if (before != kNever) deadlines_.erase({before, id});
  if (after != kNever) deadlines_.insert({after, id});
}

void Agent::forget(const Connection& c) {
  const auto drop_entry = [&](auto& index, std::uint32_t number) {
    const auto it = index.find({origin_of(c), c.remote_ca_guid(), number});
    if (it != index.end() && it->second == c.id()) index.erase(it);
  };
  if (!c.is_passive()) return;
  drop_entry(by_remote_id_, c.remote_id());
  drop_entry(by_remote_qpn_, c.negotiated().remote_qpn);
}

void Agent::settle(Connection& c, TimeNs before) {
  move_deadline(c.id(), before, c.deadline());
  if (c.state() == kIdle) forget(c);
  if (c.is_finished()) connections_.erase(c.id());
}

void Agent::settle(SidrExchange& e, TimeNs before) {
  move_deadline(e.id(), before, e.deadline());
  if (e.state() == SidrExchange::State::kIdle && e.is_passive()) {
    const auto it = by_request_.find({origin_of(e), e.request_id()});
    if (it != by_request_.end() && it->second == e.id()) by_request_.erase(it);
  }
  if (e.is_finished()) sidrs_.erase(e.id());
}

template <typename Action>
bool Agent::with(CommId id, Action&& action) {
  Connection* c = find(id);
  if (c == nullptr) return false;
  const TimeNs before = c->deadline();
  const bool done = action(*c);
  settle(*c, before);
  return done;
}

template <typename Action>
bool Agent::with_sidr(CommId id, Action&& action) {
  const auto it = sidrs_.find(id);
  if (it == sidrs_.end()) return false;
  SidrExchange& e = *it->second;
  const TimeNs before = e.deadline();
  const bool done = action(e);
  settle(e, before);
  return done;
}

// --- the user ---------------------------------------------------------------------------------

CommId Agent::new_connection(DeviceId device) {
  const CommId id = next_id();
  connections_.emplace(id, std::make_unique<Connection>(id, device, random_.next(), out_));
  return id;
}

CommId Agent::new_sidr(DeviceId device) {
  const CommId id = next_id();
  sidrs_.emplace(id, std::make_unique<SidrExchange>(id, device, out_));
  return id;
}

bool Agent::send_req(TimeNs now, CommId id, const IpAddress& peer, Req req,
                     std::uint32_t ece_option) {
  req.local_comm_id = id;
  return with(id, [&](Connection& c) { return c.send_req(now, peer, req, ece_option); });
}

bool Agent::send_rep(TimeNs now, CommId id, const Rep& rep, std::uint32_t ece_option) {
  return with(id, [&](Connection& c) { return c.send_rep(now, rep, ece_option); });
}

bool Agent::send_rtu(TimeNs, CommId id) {
  return with(id, [](Connection& c) { return c.send_rtu(); });
}

bool Agent::reject(TimeNs now, CommId id, RejectReason reason,
                   std::span<const std::uint8_t> private_data) {
  return with(id, [&](Connection& c) { return c.reject(now, reason, private_data); });
}

bool Agent::disconnect(TimeNs now, CommId id) {
  return with(id, [&](Connection& c) { return c.disconnect(now); });
}

bool Agent::mark_established(TimeNs, CommId id) {
  return with(id, [](Connection& c) { return c.mark_established(); });
}

bool Agent::send_sidr_req(TimeNs now, CommId id, const IpAddress& peer, SidrReq req) {
  req.request_id = id;
  return with_sidr(id, [&](SidrExchange& e) { return e.send_req(now, peer, req, random_.next()); });
}

bool Agent::send_sidr_rep(TimeNs now, CommId id, const SidrRep& rep, std::uint32_t ece_option) {
  return with_sidr(id, [&](SidrExchange& e) { return e.send_rep(now, rep, ece_option); });
}

void Agent::release(TimeNs now, CommId id) {
  const auto end = [&](auto& owner) {
    owner.abandon(now);
    return true;
  };
  if (!with(id, end)) with_sidr(id, end);
}

void Agent::handle_timeout(TimeNs now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const CommId id = deadlines_.begin()->second;
    const auto expire = [&](auto& owner) {
      owner.handle_timeout(now);
      return true;
    };
    const bool known = with(id, expire) || with_sidr(id, expire);
    VERBENA_CHECK(known);
  }
}

bool Agent::is_consistent() const {
  std::size_t waiting = 0;
  for (const auto& [id, c] : connections_) {
    if (c->id() != id || c->is_finished()) return false;
    if (c->deadline() == kNever) continue;
    ++waiting;
    if (!deadlines_.contains({c->deadline(), id})) return false;
  }
  for (const auto& [id, e] : sidrs_) {
    if (e->id() != id || e->is_finished()) return false;
    if (e->deadline() == kNever) continue;
    ++waiting;
    if (!deadlines_.contains({e->deadline(), id})) return false;
  }
  const auto all_known = [this](const auto& index) {
    for (const auto& [key, id] : index) {
      if (!connections_.contains(id) && !sidrs_.contains(id)) return false;
    }
    return true;
  };
  return waiting == deadlines_.size() && all_known(by_remote_id_) && all_known(by_remote_qpn_) &&
         all_known(by_request_);
}

}  // namespace verbena::cm
