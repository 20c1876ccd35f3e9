// SPDX-License-Identifier: BSD-2-Clause
// How the queue pairs that send to one peer share what it can hold. Those with packets in flight
// have a turn each and divide the capacity between them. Only so many have a turn at a time that
// each can send what it has, or a part that is worth a turn; the others wait in a queue. Without
// turns, a thousand queue pairs with a packet each would overrun the peer together, again with each
// repetition, though each alone is careful. A queue pair that is alone with its peer takes no turn.
//
// Owned by the device; used under the locks of the queue pairs, which come before its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>

#include "verbena/base/address.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/base/types.hpp"

namespace verbena::requester {

// Learns, under any lock and on any thread, that a queue pair that waited has a turn now.
class TurnSink {
 public:
  virtual void on_turn(void* member) noexcept = 0;

 protected:
  ~TurnSink() = default;
};

class FlowShare {
 public:
  // The place of one queue pair. `member` is passed to the sink.
  class Place {
   public:
    explicit Place(void* member) : member_(member) {}
    Place(const Place&) = delete;
    bool has_turn() const noexcept { return state_.read_relaxed() == State::kTurn; }
    bool waits() const noexcept { return state_.read_relaxed() == State::kWaits; }
    bool is_out() const noexcept { return state_.read_relaxed() == State::kOut; }
    // Returns whether the queue pair waits and has already asked for a turn of `wanted` packets.
    bool waits_with(std::uint64_t wanted) const noexcept {
      return waits() && worth_of(wanted) <= packets_;
    }

   private:
    friend FlowShare;
    enum class State : std::uint8_t { kOut, kWaits, kTurn };
    void* const member_;
    Published<State> state_{State::kOut};
    // How many packets the turn is worth, and the same as a part of the capacity. Only the queue
    // pair itself changes them.
    std::uint32_t packets_ = 0;
    std::uint32_t part_ = 0;
    Place* before_ = nullptr;
    Place* after_ = nullptr;
  };

  explicit FlowShare(TurnSink& sink) : sink_(sink) {}
  FlowShare(const FlowShare&) = delete;

  // Takes a turn, or a place in the queue for one: then it returns false, and the sink is told
  // later. `wanted` and `capacity` are in packets; a queue pair that waits may say anew how many it
  // wants.
  bool enter(Place& place, std::uint64_t wanted, std::uint32_t capacity) noexcept;
  // Gives up the turn or the place in the queue, if there is one.
  void leave(Place& place) noexcept;

  bool has_waiting() const noexcept { return waiting_.read_relaxed() != 0; }
  std::uint32_t of(std::uint32_t capacity) const noexcept {
    const std::uint32_t active = active_.read_relaxed();
    // One active queue pair is the most frequent case, and needs no division.
    return std::max(active <= 1 ? capacity : capacity / active, 1u);
  }

  // The fewest packets that are worth a turn, enough for one send, and the number beyond which more
  // do not help (bench/README.md has the figures).
  static constexpr std::uint64_t kPacketsAtLeast = 16;
  static constexpr std::uint64_t kPacketsAtMost = 32;
  // A turn ends after this many packets if others wait.
  static constexpr std::uint32_t kPacketsPerTurn = 64;

 private:
  using State = Place::State;
  static constexpr std::uint32_t worth_of(std::uint64_t wanted) {
    return static_cast<std::uint32_t>(std::clamp(wanted, kPacketsAtLeast, kPacketsAtMost));
  }
  bool has_room_for(const Place& place) const noexcept;
  void give_turn(Place& place) noexcept;
  void append(Place& place) noexcept;
  void unlink(Place& place) noexcept;

  TurnSink& sink_;
  Lock lock_;
  Published<std::uint32_t> active_{0};
  Published<std::uint32_t> waiting_{0};
  std::uint32_t taken_ = 0;  // the sum of the parts of those that have a turn
  Place* first_ = nullptr;
  Place* last_ = nullptr;
};

// One FlowShare for each peer: a process that does not answer holds up no sender to another peer.
class FlowShares {
 public:
  explicit FlowShares(TurnSink& sink) : sink_(sink) {}
  std::shared_ptr<FlowShare> to(const IpAddress& address, std::uint32_t slot);

 private:
  struct Peer {
    IpAddress address;
    std::uint32_t slot;
    auto operator<=>(const Peer&) const = default;
  };
  TurnSink& sink_;
  Lock lock_;
  std::map<Peer, std::weak_ptr<FlowShare>> shares_;
  std::size_t prune_at_ = 64;
};

}  // namespace verbena::requester
