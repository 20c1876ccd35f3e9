// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/requester/flow_share.hpp"

namespace verbena::requester {
namespace {

// Stands for the whole capacity, which is a different number of packets for each message size.
constexpr std::uint32_t kWhole = 1u << 16;

std::uint32_t part_of(std::uint32_t packets, std::uint32_t capacity) {
  return packets < capacity ? static_cast<std::uint32_t>(std::uint64_t{packets} * kWhole / capacity)
                            : kWhole;
}

}  // namespace

bool FlowShare::has_room_for(const Place& place) const noexcept {
  return taken_ + place.part_ <= kWhole;
}

bool FlowShare::enter(Place& place, std::uint64_t wanted, std::uint32_t capacity) noexcept {
  const Guard guard(lock_);
  if (place.has_turn()) return true;
  place.packets_ = worth_of(wanted);
  place.part_ = part_of(place.packets_, capacity);
  if (place.waits()) return false;
  if (first_ == nullptr && has_room_for(place)) {
    give_turn(place);
    return true;
  }
  append(place);
  return false;
}

void FlowShare::leave(Place& place) noexcept {
  const Guard guard(lock_);
  if (place.waits()) {
    unlink(place);
  } else if (place.has_turn()) {
    active_.publish(active_.read_relaxed() - 1);
    taken_ -= place.part_;
  }
  place.state_.publish(State::kOut);
  while (first_ != nullptr && has_room_for(*first_)) {
    Place& next = *first_;
    unlink(next);
    give_turn(next);
    sink_.on_turn(next.member_);
  }
}

void FlowShare::give_turn(Place& place) noexcept {
  active_.publish(active_.read_relaxed() + 1);
  taken_ += place.part_;
  place.state_.publish(State::kTurn);
}

void FlowShare::append(Place& place) noexcept {
  place.before_ = last_;
  place.after_ = nullptr;
  (last_ != nullptr ? last_->after_ : first_) = &place;
  last_ = &place;
  place.state_.publish(State::kWaits);
  waiting_.publish(waiting_.read_relaxed() + 1);
}

void FlowShare::unlink(Place& place) noexcept {
  (place.before_ != nullptr ? place.before_->after_ : first_) = place.after_;
  (place.after_ != nullptr ? place.after_->before_ : last_) = place.before_;
  waiting_.publish(waiting_.read_relaxed() - 1);
}

std::shared_ptr<FlowShare> FlowShares::to(const IpAddress& address, std::uint32_t slot) {
  const Guard guard(lock_);
  if (shares_.size() >= prune_at_) {
    std::erase_if(shares_, [](const auto& entry) { return entry.second.expired(); });
    prune_at_ = std::max<std::size_t>(64, shares_.size() * 2);
  }
  std::weak_ptr<FlowShare>& known = shares_[{address, slot}];
  if (auto alive = known.lock()) return alive;
  auto made = std::make_shared<FlowShare>(sink_);
  known = made;
  return made;
}

}  // namespace verbena::requester
