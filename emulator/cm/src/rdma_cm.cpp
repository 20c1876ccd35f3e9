// SPDX-License-Identifier: BSD-2-Clause
// The books of the rdma_cm layer: IDs, channels, the events that wait and those handed out.
#include "verbena/cm/rdma_cm.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace verbena::cm {

RdmaCm::RdmaCm(const Ports& ports, std::uint64_t seed)
    : ports_(ports), random_(seed), agent_(random_.next()), port_table_(random_.next()) {}

std::set<limits::Holder> RdmaCm::listening_processes() const {
  std::set<limits::Holder> processes;
  for (const auto& [handle, id] : ids_) {
    if (id->state == IdState::kListening) processes.insert(process_of(id->channel));
  }
  return processes;
}

RdmaId& RdmaCm::new_id(ChannelId channel) {
  shares_.objects.take(process_of(channel));
  RdmaId& id = ids_.add(channel);
  // Now, because a program asks for its queue pair's attributes before it connects or accepts.
  id.starting_psn = static_cast<std::uint32_t>(random_.next()) & kMask24;
  return id;
}

// --- events -----------------------------------------------------------------------------------

void RdmaCm::post(RdmaId& id, RdmaEvent event) {
  // A request that nobody has accepted has no name the program would know.
  if (id.uid == 0) {
    const bool ends = event.type != RdmaEventType::kAddrChange;
    if (ends && !id.missed) id.missed = std::make_unique<RdmaEvent>(event);
    return channels_.wake(id.channel, id.handle);
  }
  event.owner = id.handle;
  if (event.membership == 0) {
    event.uid = id.uid;
    if (event.request == 0) event.id = id.handle;
  }
  channels_.push(id.channel, event);
}

void RdmaCm::post(RdmaId& id, RdmaEventType type, std::int32_t status) {
  RdmaEvent event;
  event.type = type;
  event.status = status;
  if (id.is_ud()) event.param = UdParam{};
  post(id, event);
}

std::optional<RdmaEvent> RdmaCm::get_event(ChannelId channel) {
  const std::optional<RdmaEvent> event = channels_.pop(channel);
  if (!event) return std::nullopt;
  RdmaId& owner = ids_.at(event->owner);
  ++owner.events_reported;
  if (event->membership != 0) ++memberships_.find(event->membership)->events_reported;
  if (event->type == RdmaEventType::kConnectRequest) ++owner.backlog;
  return event;
}

RdmaId* RdmaCm::unread_request(ChannelId channel, IdHandle handle) {
  RdmaId* id = nullptr;
  return find(channel, handle, id) == 0 && id->uid == 0 ? id : nullptr;
}

// Takes back unread events; the request that an unread CONNECT_REQUEST brought dies with it.
std::uint32_t RdmaCm::withdraw(TimeNs now, ChannelId channel, IdHandle owner,
                               std::uint32_t membership) {
  const EventChannels::Gone gone = channels_.take_back(channel, owner, membership);
  for (const IdHandle handle : gone.requests) {
    std::uint32_t none = 0;
    if (RdmaId* const request = unread_request(channel, handle)) destroy(now, *request, none);
  }
  return gone.events;
}

// --- the life of an ID ------------------------------------------------------------------------

int RdmaCm::create_id(ChannelId channel, std::uint64_t uid, std::uint16_t port_space,
                      std::uint8_t qp_type, IdHandle& handle) {
  if (!channels_.contains(channel)) return EINVAL;
  if (!may_add_object(channel)) return ENOMEM;
  QpType type = QpType::kNone;
  switch (static_cast<PortSpace>(port_space)) {
    case PortSpace::kTcp:
      type = QpType::kRc;
      break;
    case PortSpace::kUdp:
    case PortSpace::kIpoib:
      type = QpType::kUd;
      break;
    case PortSpace::kIb:
      type = static_cast<QpType>(qp_type);
      break;
    default:
      return EINVAL;
  }
  switch (type) {
    case QpType::kRc:
    case QpType::kUc:
    case QpType::kUd:
    case QpType::kXrcSend:
    case QpType::kXrcRecv:
      break;
    default:
      return EINVAL;
  }
  RdmaId& id = new_id(channel);
  id.uid = uid;
  id.space = static_cast<PortSpace>(port_space);
  id.qp_type = type;
  handle = id.handle;
  return 0;
}

void RdmaCm::release_port(RdmaId& id) {
  if (!id.holds_port) return;
  port_table_.release(id.space, id.source.port, id.handle);
  shares_.ports.give_back(process_of(id.channel));
  id.holds_port = false;
}

void RdmaCm::release_connection(TimeNs now, RdmaId& id) {
  if (id.comm == 0) return;
  agent_.release(now, id.comm);
  ids_.disconnect(id);
}

void RdmaCm::destroy(TimeNs now, RdmaId& id, std::uint32_t& withdrawn) {
  const IdHandle handle = id.handle;
  release_port(id);
  neighbours_.forget(handle);
  withdrawn += withdraw(now, id.channel, handle, 0);
  release_connection(now, id);
  shares_.objects.give_back(process_of(id.channel), 1 + id.memberships.size());
  memberships_.remove_all(id);
  ids_.erase(handle);
}

int RdmaCm::destroy_id(TimeNs now, ChannelId channel, IdHandle handle,
                       std::uint32_t& events_reported, std::uint32_t& withdrawn) {
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  events_reported = id->events_reported;
  withdrawn = 0;
  destroy(now, *id, withdrawn);
  drain(now);
  return 0;
}

void RdmaCm::close_channel(TimeNs now, ChannelId channel) {
  if (!channels_.contains(channel)) return;
  std::vector<IdHandle> own;
  for (const auto& [handle, id] : ids_) {
    if (id->channel == channel) own.push_back(handle);
  }
  std::uint32_t withdrawn = 0;
  for (const IdHandle handle : own) {
    if (RdmaId* const id = ids_.get(handle)) destroy(now, *id, withdrawn);
  }
  channels_.close(channel);
  drain(now);
}

int RdmaCm::migrate(ChannelId to, ChannelId from, IdHandle handle, std::uint32_t& events_reported,
                    std::uint32_t& withdrawn) {
  RdmaId* id = nullptr;
  if (const int error = find(from, handle, id)) return error;
  if (!channels_.contains(to)) return EINVAL;
  events_reported = id->events_reported;
  withdrawn = 0;
  id->channel = to;
  if (to == from) return 0;
  const limits::Holder giver = process_of(from);
  const limits::Holder taker = process_of(to);
  move_shares(*id, giver, taker);
  const EventChannels::Gone moved = channels_.move(from, to, handle);
  withdrawn = moved.events;
  // Requests that the moved events bring belong to the new channel as well.
  for (const IdHandle number : moved.requests) {
    RdmaId* const request = unread_request(from, number);
    if (request == nullptr) continue;
    request->channel = to;
    move_shares(*request, giver, taker);
  }
  return 0;
}

void RdmaCm::move_shares(const RdmaId& id, limits::Holder from, limits::Holder to) {
  shares_.objects.give_back(from, 1 + id.memberships.size());
  shares_.objects.take(to, 1 + id.memberships.size());
  if (!id.holds_port) return;
  shares_.ports.give_back(from);
  shares_.ports.take(to);
}

bool RdmaCm::is_consistent() const {
  if (!agent_.is_consistent() || !ids_.is_consistent()) return false;
  for (const auto& [handle, id] : ids_) {
    if (!channels_.contains(id->channel)) return false;
  }
  for (const auto& [number, membership] : memberships_) {
    const RdmaId* owner = ids_.get(membership.owner);
    if (owner == nullptr || std::ranges::count(owner->memberships, number) != 1) return false;
  }
  return channels_.is_consistent([this](IdHandle owner, ChannelId channel) {
    RdmaId* id = nullptr;
    return find(channel, owner, id) == 0;
  });
}

}  // namespace verbena::cm
