// SPDX-License-Identifier: BSD-2-Clause
// The memory of the process from whose context this one imports, by a descriptor of /proc/PID/mem
// that its owner has opened and passed to us. The descriptor means that process's memory and no
// other's: once the process has ended there is nothing behind it, even if another process gets the
// same number, in any namespace. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "verbena/control/unique_fd.hpp"

namespace verbena::provider {

class ForeignMemory {
 public:
  // Takes the descriptor. Further descriptors belong to the same process and are dropped.
  void adopt(control::UniqueFd memory);
  // The owner has closed the context from which all imported objects came.
  void end() noexcept { ended_.store(true, std::memory_order_release); }

  bool may_be_read() const noexcept { return fd() >= 0; }
  // Return false if the memory is not there, wholly or in part.
  bool read(void* to, std::uint64_t address, std::size_t length) const noexcept;
  bool write(std::uint64_t address, const void* from, std::size_t length) const noexcept;

 private:
  // Returns -1 if there is no descriptor, or if the owner's context has ended.
  int fd() const noexcept {
    return ended_.load(std::memory_order_acquire) ? -1 : number_.load(std::memory_order_acquire);
  }

  std::mutex lock_;
  control::UniqueFd memory_;  // stays open as long as this object is used
  std::atomic<int> number_{-1};
  std::atomic<bool> ended_{false};
};

}  // namespace verbena::provider
