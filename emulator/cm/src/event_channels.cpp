// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm/event_channels.hpp"

#include <algorithm>

#include "verbena/base/check.hpp"

namespace verbena::cm {

void EventChannels::push(ChannelId channel, const RdmaEvent& event) {
  const auto target = channels_.find(channel);
  VERBENA_CHECK(target != channels_.end());
  target->second.events.push_back(event);
  objects_.take(target->second.process);
  wakeups_.push_back({channel, 1});
}

std::optional<RdmaEvent> EventChannels::pop(ChannelId channel) {
  const auto it = channels_.find(channel);
  if (it == channels_.end() || it->second.events.empty()) return std::nullopt;
  const RdmaEvent event = it->second.events.front();
  it->second.events.pop_front();
  objects_.give_back(it->second.process);
  return event;
}

std::size_t EventChannels::waiting(ChannelId channel) const {
  const auto it = channels_.find(channel);
  return it == channels_.end() ? 0 : it->second.events.size();
}

const RdmaEvent* EventChannels::peek(ChannelId channel, std::size_t before) const {
  const auto it = channels_.find(channel);
  if (it == channels_.end() || before >= it->second.events.size()) return nullptr;
  return &it->second.events[before];
}

bool EventChannels::is_any_waiting() const {
  return std::any_of(channels_.begin(), channels_.end(),
                     [](const auto& channel) { return !channel.second.events.empty(); });
}

template <typename Take>
EventChannels::Gone EventChannels::remove(Channel& channel, IdHandle owner,
                                          std::uint32_t membership, Take&& take) {
  Gone gone;
  for (auto it = channel.events.begin(); it != channel.events.end();) {
    if (it->owner != owner || (membership != 0 && it->membership != membership)) {
      ++it;
      continue;
    }
    if (it->request != 0) gone.requests.push_back(it->request);
    take(*it);
    it = channel.events.erase(it);
    ++gone.events;
  }
  objects_.give_back(channel.process, gone.events);
  return gone;
}

EventChannels::Gone EventChannels::take_back(ChannelId channel, IdHandle owner,
                                             std::uint32_t membership) {
  return remove(channels_.at(channel), owner, membership, [](const RdmaEvent&) {});
}

EventChannels::Gone EventChannels::move(ChannelId from, ChannelId to, IdHandle owner) {
  Channel& target = channels_.at(to);
  Gone gone = remove(channels_.at(from), owner, 0,
                     [&](const RdmaEvent& event) { target.events.push_back(event); });
  objects_.take(target.process, gone.events);
  if (gone.events > 0) wakeups_.push_back({to, gone.events});
  return gone;
}

}  // namespace verbena::cm
