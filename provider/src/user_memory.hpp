// How the engine learns whether the application's pages are there, and reaches pages that may not
// be (on-demand regions), without a signal; and the pages of other processes, whose addresses carry
// the process in their upper bits. Any thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "verbena/memory/port.hpp"

namespace verbena::provider {

class UserMemory final : public memory::MemoryPort {
 public:
  // No region of this process's own reaches beyond: there, others' addresses begin.
  static constexpr std::uint64_t kUserSpaceEnd = std::uint64_t{1} << 48;

  bool read(void* to, std::uint64_t address, std::size_t length) noexcept override;
  bool write(std::uint64_t address, const void* from, std::size_t length) noexcept override;
  bool is_mapped(std::uint64_t address, std::size_t length, bool writable) noexcept override;

  // By which `address` of another process is known here; 0: too many processes.
  std::uint64_t foreign_address(std::uint32_t pid, std::uint64_t address) noexcept;

 private:
  //    63   62        48 47                               0
  //  |  1  |  process   |  address in that process         |
  static constexpr unsigned kAddressBits = 48;
  static constexpr std::size_t kProcesses = 1024;
  pid_t process_of(std::uint64_t address) const noexcept;

  std::array<std::atomic<std::uint32_t>, kProcesses> pids_{};  // 0: free; never changed
};

}  // namespace verbena::provider
