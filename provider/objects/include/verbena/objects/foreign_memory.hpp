// SPDX-License-Identifier: BSD-2-Clause
// The memory of the process whose context this one imports from, by a descriptor of /proc/PID/mem
// that its owner has opened and given us. It names that process's memory and no other: when the
// process has ended there is none behind it any more, whoever has the same number by then, and in
// whatever namespace numbers are given. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "verbena/control/unique_fd.hpp"

namespace verbena::provider {

class ForeignMemory {
 public:
  // Takes the descriptor over; those that come after the first are of the same process.
  void adopt(control::UniqueFd memory);
  // The owner has closed the context from which all that is imported came.
  void end() noexcept { ended_.store(true, std::memory_order_release); }

  // False if it is not there, wholly or in part.
  bool read(void* to, std::uint64_t address, std::size_t length) const noexcept;
  bool write(std::uint64_t address, const void* from, std::size_t length) const noexcept;

 private:
  // -1: there is none, or it has ended.
  int fd() const noexcept {
    return ended_.load(std::memory_order_acquire) ? -1 : number_.load(std::memory_order_acquire);
  }

  std::mutex lock_;
  control::UniqueFd memory_;  // stays open as long as this object is used
  std::atomic<int> number_{-1};
  std::atomic<bool> ended_{false};
};

}  // namespace verbena::provider
