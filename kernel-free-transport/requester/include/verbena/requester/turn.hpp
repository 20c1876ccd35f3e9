// SPDX-License-Identifier: BSD-2-Clause
// The turn of one queue pair among those that send to its peer (flow_share.hpp): whether it has
// one, waits for one, or needs none, and when the turn must end.
//
// Part of a requester.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "verbena/requester/flow_share.hpp"

namespace verbena::requester {

class Turn {
 public:
  // `member` is passed to the sink of the share.
  explicit Turn(void* member) : place_(member) {}
  Turn(const Turn&) = delete;
  ~Turn() { give_up(); }

  // Shares the peer with the queue pairs that send to it.
  void share_with(std::shared_ptr<FlowShare> share) {
    give_up();
    share_ = std::move(share);
  }
  const FlowShare& share() const { return *share_; }

  bool is_held() const { return place_.has_turn(); }
  // Returns whether others wait and the turn was long: nothing new goes until the next turn.
  bool is_over() const { return is_over_; }
  bool is_awaited() const { return place_.waits(); }
  // Returns whether the turn is awaited, and need not be asked for again for `packets` packets.
  bool is_awaited_with(std::uint64_t packets) const { return place_.waits_with(packets); }
  // Returns whether no other queue pair shares the peer.
  bool is_needless() const { return place_.is_out() && share_.use_count() == 1; }

  // Does what FlowShare::enter() does.
  bool take(std::uint64_t wanted, std::uint32_t capacity) noexcept {
    return share_->enter(place_, wanted, capacity);
  }
  // A turn ends with a packet that requests its answer, because otherwise the answer would come
  // late.
  void sent(std::uint32_t packets, bool is_answered) noexcept {
    packets_ += packets;
    if (is_answered && packets_ >= FlowShare::kPacketsPerTurn && share_->has_waiting()) [[unlikely]]
      is_over_ = true;
  }
  // Gives up the turn, or the place in the queue for one.
  void give_up() noexcept {
    if (!place_.is_out()) share_->leave(place_);
    packets_ = 0;
    is_over_ = false;
  }

 private:
  std::shared_ptr<FlowShare> share_;
  FlowShare::Place place_;
  std::uint32_t packets_ = 0;  // sent in this turn
  bool is_over_ = false;
};

}  // namespace verbena::requester
