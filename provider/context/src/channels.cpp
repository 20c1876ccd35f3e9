// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/channels.hpp"

#include <utility>

#include "verbena/context/blocked_reader.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {

std::shared_ptr<CompletionChannel> Channels::of(ibv_comp_channel* channel) {
  const std::lock_guard guard(lock_);
  std::weak_ptr<CompletionChannel>& known = known_[channel];
  if (auto alive = known.lock()) return alive;
  auto made = std::make_shared<CompletionChannel>();
  if (const int error = made->pipe.open(channel->fd); error != 0) {
    refuse(error, "ibv_create_cq: the completion channel cannot be written to (errno %d)", error);
  }
  known = made;
  offer_channel(channel->fd);
  std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
  return made;
}

std::shared_ptr<CompletionChannel> Channels::read_at(int fd) noexcept {
  const std::lock_guard guard(lock_);
  for (const auto& [handle, known] : known_) {
    auto channel = known.lock();
    if (channel != nullptr && channel->pipe.read_end() == fd) return channel;
  }
  return nullptr;
}

void Channels::abandon() noexcept {
  for (const auto& [handle, known] : known_) {
    if (const auto channel = known.lock()) channel->pipe.abandon();
  }
}

void Channels::lose_descriptors() noexcept {
  const std::lock_guard guard(lock_);
  for (const auto& [handle, known] : known_) {
    if (auto channel = known.lock()) {
      channel->pipe.lose_descriptors();
      lost_.push_back(std::move(channel));
    }
  }
}

}  // namespace verbena::provider
