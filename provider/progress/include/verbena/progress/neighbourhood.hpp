// SPDX-License-Identifier: BSD-2-Clause
// The other engines of the process, as one engine sees them (neighbours.hpp): whoever polls it in
// vain looks whether nobody looks after them. A look at one that another thread polls takes lines
// from that thread's processor, so such a neighbour is looked at ever more seldom; at one that
// nobody polls, each time.
//
// Owned by its engine; any thread that polls it looks, one at a time and none waits. Changed under
// the lock of neighbours.cpp, which is taken before the one here.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "verbena/base/lock.hpp"
#include "verbena/progress/progress.hpp"

namespace verbena::provider {

class Neighbour {
 public:
  // A poll of another's was in vain, and it had seen so many polls here when it last looked. False:
  // somebody looks after this one.
  virtual bool drive_undriven(Undriven which, std::uint32_t& polls_seen) noexcept = 0;

 protected:
  ~Neighbour() = default;
};

class Neighbourhood {
 public:
  // A poll of ours was in vain.
  void look(Undriven which) noexcept {
    if (!is_empty_.load(std::memory_order_relaxed)) look_at_each(which);
  }
  // Room for so many. Throws std::bad_alloc.
  void reserve(std::size_t count);
  void add(Neighbour& neighbour) noexcept;
  void remove(const Neighbour& neighbour) noexcept;
  Lock& lock() noexcept { return lock_; }

 private:
  struct Seen {
    Neighbour* neighbour;
    std::uint32_t polls_seen = 0;
    std::uint32_t interval = 1;  // in looks
    std::uint32_t looks_left = 1;
  };

  [[gnu::noinline]] void look_at_each(Undriven which) noexcept;

  std::atomic<bool> is_empty_{true};
  Lock lock_;
  std::vector<Seen> all_;
};

}  // namespace verbena::provider
