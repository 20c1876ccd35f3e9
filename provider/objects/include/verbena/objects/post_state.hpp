// SPDX-License-Identifier: BSD-2-Clause
// What an engine notes about the posts to a queue pair, under the queue pair's lock.
#pragma once

#include <cstdint>

namespace verbena::provider {

struct PostState {
  bool has_new_peer = false;   // nothing was posted to it yet
  std::uint32_t deferred = 0;  // posts that waited for an answer
};

}  // namespace verbena::provider
