// SPDX-License-Identifier: BSD-2-Clause
// Event channels: the process behind each, the events that wait on it, and the processes to wake
// for them. Each waiting event counts as one object of its process's share. Owned by RdmaCm, one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "verbena/cm/rdma_types.hpp"
#include "verbena/limits/fair_share.hpp"

namespace verbena::cm {

// Says how many events became readable on a channel. With 0 events it says that the ID `changed` is
// not what it was.
struct Wakeup {
  ChannelId channel;
  std::uint32_t events;
  IdHandle changed = 0;
};

class EventChannels {
 public:
  explicit EventChannels(limits::FairShare& objects) : objects_(objects) {}

  void open(ChannelId channel, limits::Holder process) {
    channels_.try_emplace(channel, Channel{{}, process});
  }
  // No event may wait on the channel any more.
  void close(ChannelId channel) { channels_.erase(channel); }
  bool contains(ChannelId channel) const { return channels_.contains(channel); }
  std::size_t size() const { return channels_.size(); }
  limits::Holder process_of(ChannelId channel) const { return channels_.at(channel).process; }

  void push(ChannelId channel, const RdmaEvent& event);
  // Wakes the channel without an event, because this ID is not what it was.
  void wake(ChannelId channel, IdHandle changed) { wakeups_.push_back({channel, 0, changed}); }
  // Removes and returns the first waiting event. Returns nothing if none waits or the channel is
  // not open.
  std::optional<RdmaEvent> pop(ChannelId channel);
  std::size_t waiting(ChannelId channel) const;
  // Returns the event that comes after `before` others, without removing it; null: none.
  const RdmaEvent* peek(ChannelId channel, std::size_t before) const;
  bool is_any_waiting() const;
  std::vector<Wakeup> take_wakeups() { return std::exchange(wakeups_, {}); }

  // Events that were removed from their channel, and the requests that some of them brought.
  struct Gone {
    std::uint32_t events = 0;
    std::vector<IdHandle> requests;
  };
  // Removes the owner's events: those of one membership, or all if `membership` is 0.
  Gone take_back(ChannelId channel, IdHandle owner, std::uint32_t membership);
  // Moves all events of the owner to another channel.
  Gone move(ChannelId from, ChannelId to, IdHandle owner);

  // Returns how many events wait on the process's channels.
  std::size_t waiting_for(limits::Holder process) const {
    std::size_t count = 0;
    for (const auto& [number, channel] : channels_) {
      if (channel.process == process) count += channel.events.size();
    }
    return count;
  }
  std::set<limits::Holder> processes() const {
    std::set<limits::Holder> all;
    for (const auto& [number, channel] : channels_) all.insert(channel.process);
    return all;
  }
  // Returns true if `is_here(owner, channel)` holds for each waiting event.
  template <typename IsHere>
  bool is_consistent(IsHere&& is_here) const {
    for (const auto& [number, channel] : channels_) {
      for (const RdmaEvent& event : channel.events) {
        if (!is_here(event.owner, number)) return false;
      }
    }
    return true;
  }

 private:
  struct Channel {
    std::deque<RdmaEvent> events;
    limits::Holder process = 0;
  };

  // Removes events and calls `take` with each.
  template <typename Take>
  Gone remove(Channel& channel, IdHandle owner, std::uint32_t membership, Take&& take);

  limits::FairShare& objects_;
  std::unordered_map<ChannelId, Channel> channels_;
  std::vector<Wakeup> wakeups_;
};

}  // namespace verbena::cm
