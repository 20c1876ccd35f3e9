// SPDX-License-Identifier: BSD-2-Clause
// The completion channels of a context that completion queues use. Owned by the context. Any thread
// may call this, under the context's lock.
#pragma once

#include <infiniband/verbs.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "verbena/events/completion_channel.hpp"

namespace verbena::provider {

class Channels {
 public:
  explicit Channels(std::mutex& lock) : lock_(lock) {}

  // Throws VerbRefused.
  std::shared_ptr<CompletionChannel> of(ibv_comp_channel* channel);
  // Returns the channel whose reading end is `fd`, or null if there is none.
  std::shared_ptr<CompletionChannel> read_at(int fd) noexcept;
  // Called in a forked child, under the lock.
  void abandon() noexcept;
  // The program has closed our descriptors. From now on no channel is written to or destroyed.
  void lose_descriptors() noexcept;

 private:
  std::mutex& lock_;
  std::map<ibv_comp_channel*, std::weak_ptr<CompletionChannel>> known_;
  std::vector<std::shared_ptr<CompletionChannel>> lost_;
};

}  // namespace verbena::provider
