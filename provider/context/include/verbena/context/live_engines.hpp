// SPDX-License-Identifier: BSD-2-Clause
// All engines of this process, for the moments when the process itself asks for something: it
// forks, it ends, or it reads a descriptor that may be one of theirs.
//
// A forked child has no progress thread and shares its descriptors with the parent. It must not
// take the parent's packets, nor keep the parent's slot alive when the parent dies: in the child
// every engine is dead. At exit the pending ACKs are sent, since a process often ends right
// after it has read its last completion, and the peer still waits for that acknowledgement.
#pragma once

#include <algorithm>
#include <mutex>
#include <vector>

namespace verbena::provider {

class AttachedEngine;

// Throws std::bad_alloc.
void add_live_engine(AttachedEngine& engine);
void remove_live_engine(AttachedEngine& engine) noexcept;

// Wakes the threads of all engines.
void wake_live_engines() noexcept;

struct LiveEngines {
  std::mutex lock;
  std::vector<AttachedEngine*> all;
};
LiveEngines& live_engines();

// Returns whether `found` is true for one of the engines. No engine goes away meanwhile.
template <typename Found>
bool any_live_engine(Found&& found) noexcept {
  LiveEngines& live = live_engines();
  const std::lock_guard guard(live.lock);
  return std::any_of(live.all.begin(), live.all.end(),
                     [&](AttachedEngine* engine) { return found(*engine); });
}

}  // namespace verbena::provider
