// SPDX-License-Identifier: BSD-2-Clause
// The books of the rdma_cm layer: IDs, channels, the events that wait and those handed out.
#include "verbena/cm/rdma_cm.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "verbena/base/check.hpp"

namespace verbena::cm {

RdmaCm::RdmaCm(const Ports& ports, std::uint64_t seed)
    : ports_(ports), random_(seed), agent_(random_.next()), port_table_(random_.next()) {}

int RdmaCm::find(ChannelId channel, IdHandle handle, RdmaId*& id) {
  const auto it = ids_.find(handle);
  if (it == ids_.end()) return ENOENT;
  if (it->second->channel != channel) return EINVAL;
  id = it->second.get();
  return 0;
}

int RdmaCm::find(ChannelId channel, IdHandle handle, const RdmaId*& id) const {
  const auto it = ids_.find(handle);
  if (it == ids_.end()) return ENOENT;
  if (it->second->channel != channel) return EINVAL;
  id = it->second.get();
  return 0;
}

bool RdmaCm::may_add_object(ChannelId channel) {
  const limits::Holder process = process_of(channel);
  if (object_share_.may_take(process)) return true;
  reason_ = "process " + std::to_string(process) + " has " +
            std::to_string(object_share_.held_by(process)) +
            " rdma_cm identifiers, memberships and unread events, and " +
            std::to_string(object_share_.left()) +
            " are left for all others: no process may have more than that";
  return false;
}

std::set<limits::Holder> RdmaCm::listening_processes() const {
  std::set<limits::Holder> processes;
  for (const auto& [handle, id] : ids_) {
    if (id->state == IdState::kListening) processes.insert(process_of(id->channel));
  }
  return processes;
}

RdmaId& RdmaCm::new_id(ChannelId channel) {
  object_share_.take(process_of(channel));
  // Cyclic over 15 bits; when so many are taken, over those beyond.
  const bool is_short = ids_.size() < kFirstLongHandle - kFirstHandle;
  IdHandle& next = is_short ? next_handle_ : next_long_handle_;
  const IdHandle first = is_short ? kFirstHandle : kFirstLongHandle;
  const IdHandle last = is_short ? kFirstLongHandle - 1 : ~IdHandle{0};
  IdHandle handle = next;
  while (ids_.contains(handle)) handle = handle == last ? first : handle + 1;
  next = handle == last ? first : handle + 1;
  auto id = std::make_unique<RdmaId>();
  id->handle = handle;
  id->channel = channel;
  // Now, because a program asks for its queue pair's attributes before it connects or accepts.
  id->starting_psn = static_cast<std::uint32_t>(random_.next()) & kMask24;
  return *ids_.emplace(handle, std::move(id)).first->second;
}

// --- events -----------------------------------------------------------------------------------

void RdmaCm::post(const RdmaId& id, RdmaEvent event) {
  // A request that nobody has accepted has no name the program would know.
  if (id.uid == 0) {
    std::unique_ptr<RdmaEvent>& missed = ids_.at(id.handle)->missed;
    const bool ends = event.type != RdmaEventType::kAddrChange;
    if (ends && !missed) missed = std::make_unique<RdmaEvent>(event);
    return wakeups_.push_back({id.channel, 0, id.handle});
  }
  const auto channel = channels_.find(id.channel);
  VERBENA_CHECK(channel != channels_.end());
  event.owner = id.handle;
  if (event.membership == 0) {
    event.uid = id.uid;
    if (event.request == 0) event.id = id.handle;
  }
  channel->second.events.push_back(event);
  object_share_.take(channel->second.process);
  wakeups_.push_back({id.channel, 1});
}

void RdmaCm::post(const RdmaId& id, RdmaEventType type, std::int32_t status) {
  RdmaEvent event;
  event.type = type;
  event.status = status;
  if (id.is_ud()) event.param = UdParam{};
  post(id, event);
}

std::optional<RdmaEvent> RdmaCm::get_event(ChannelId channel) {
  const auto it = channels_.find(channel);
  if (it == channels_.end() || it->second.events.empty()) return std::nullopt;
  RdmaEvent event = it->second.events.front();
  it->second.events.pop_front();
  object_share_.give_back(it->second.process);
  RdmaId& owner = *ids_.at(event.owner);
  ++owner.events_reported;
  if (event.membership != 0) ++memberships_.at(event.membership).events_reported;
  if (event.type == RdmaEventType::kConnectRequest) ++owner.backlog;
  return event;
}

std::size_t RdmaCm::pending_events(ChannelId channel) const {
  const auto it = channels_.find(channel);
  return it == channels_.end() ? 0 : it->second.events.size();
}

const RdmaEvent* RdmaCm::pending_event(ChannelId channel, std::size_t before) const {
  const auto it = channels_.find(channel);
  if (it == channels_.end() || before >= it->second.events.size()) return nullptr;
  return &it->second.events[before];
}

bool RdmaCm::has_pending_events() const {
  return std::any_of(channels_.begin(), channels_.end(),
                     [](const auto& channel) { return !channel.second.events.empty(); });
}

RdmaId* RdmaCm::unread_request(ChannelId channel, IdHandle handle) {
  RdmaId* id = nullptr;
  return find(channel, handle, id) == 0 && id->uid == 0 ? id : nullptr;
}

// Takes back unread events; the request that an unread CONNECT_REQUEST brought dies with it.
std::uint32_t RdmaCm::withdraw(TimeNs now, ChannelId channel, IdHandle owner,
                               std::uint32_t membership) {
  std::uint32_t count = 0;
  std::vector<IdHandle> orphans;
  const limits::Holder process = process_of(channel);
  std::deque<RdmaEvent>& events = channels_.at(channel).events;
  for (auto it = events.begin(); it != events.end();) {
    if (it->owner != owner || (membership != 0 && it->membership != membership)) {
      ++it;
      continue;
    }
    if (it->request != 0) orphans.push_back(it->request);
    it = events.erase(it);
    object_share_.give_back(process);
    ++count;
  }
  for (const IdHandle orphan : orphans) {
    std::uint32_t none = 0;
    if (RdmaId* const request = unread_request(channel, orphan)) destroy(now, *request, none);
  }
  return count;
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
  port_share_.give_back(process_of(id.channel));
  id.holds_port = false;
}

void RdmaCm::destroy(TimeNs now, RdmaId& id, std::uint32_t& withdrawn) {
  const IdHandle handle = id.handle;
  release_port(id);
  std::erase_if(asked_, [&](const AskedNeighbour& asked) { return asked.id == handle; });
  withdrawn += withdraw(now, id.channel, handle, 0);
  if (id.comm != 0) {
    by_comm_.erase(id.comm);
    agent_.release(now, id.comm);
  }
  for (const std::uint32_t membership : id.memberships) memberships_.erase(membership);
  object_share_.give_back(process_of(id.channel), 1 + id.memberships.size());
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
    const auto it = ids_.find(handle);
    if (it != ids_.end()) destroy(now, *it->second, withdrawn);
  }
  channels_.erase(channel);
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
  std::deque<RdmaEvent>& source = channels_.at(from).events;
  std::deque<RdmaEvent>& target = channels_.at(to).events;
  for (auto it = source.begin(); it != source.end();) {
    if (it->owner != handle) {
      ++it;
      continue;
    }
    target.push_back(*it);
    it = source.erase(it);
    object_share_.give_back(giver);
    object_share_.take(taker);
    ++withdrawn;
  }
  if (withdrawn > 0) wakeups_.push_back({to, withdrawn});
  // Requests that the moved events bring belong to the new channel as well.
  for (const RdmaEvent& event : target) {
    if (event.owner != handle) continue;
    RdmaId* const request = unread_request(from, event.request);
    if (request == nullptr) continue;
    request->channel = to;
    move_shares(*request, giver, taker);
  }
  return 0;
}

void RdmaCm::move_shares(const RdmaId& id, limits::Holder from, limits::Holder to) {
  object_share_.give_back(from, 1 + id.memberships.size());
  object_share_.take(to, 1 + id.memberships.size());
  if (!id.holds_port) return;
  port_share_.give_back(from);
  port_share_.take(to);
}

bool RdmaCm::is_consistent() const {
  if (!agent_.is_consistent()) return false;
  for (const auto& [handle, id] : ids_) {
    if (id->handle != handle || !channels_.contains(id->channel)) return false;
    if (id->comm != 0 && !by_comm_.contains(id->comm)) return false;
  }
  for (const auto& [comm, handle] : by_comm_) {
    const auto it = ids_.find(handle);
    if (it == ids_.end() || it->second->comm != comm) return false;
  }
  for (const auto& [number, membership] : memberships_) {
    if (!ids_.contains(membership.owner)) return false;
  }
  for (const auto& [number, channel] : channels_) {
    for (const RdmaEvent& event : channel.events) {
      const auto owner = ids_.find(event.owner);
      if (owner == ids_.end() || owner->second->channel != number) return false;
    }
  }
  return true;
}

}  // namespace verbena::cm
