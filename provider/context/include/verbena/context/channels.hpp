// SPDX-License-Identifier: BSD-2-Clause
// The completion channels of a context, as far as completion queues use them. Owned by the context;
// any thread, under the context's lock.
#pragma once

#include <infiniband/verbs.h>

#include <map>
#include <memory>
#include <mutex>

#include "verbena/events/completion_channel.hpp"

namespace verbena::provider {

class Channels {
 public:
  explicit Channels(std::mutex& lock) : lock_(lock) {}

  // Throws VerbRefused.
  std::shared_ptr<CompletionChannel> of(ibv_comp_channel* channel, FullPipes& full_pipes);
  // The one that is read there; null if there is none.
  std::shared_ptr<CompletionChannel> read_at(int fd) noexcept;
  // In a forked child, under the lock.
  void abandon() noexcept;

 private:
  std::mutex& lock_;
  std::map<ibv_comp_channel*, std::weak_ptr<CompletionChannel>> known_;
};

}  // namespace verbena::provider
