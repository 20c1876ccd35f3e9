// SPDX-License-Identifier: BSD-2-Clause
// Hears, by the preload library (control/memory_guard.hpp), what the program unmaps, so that nobody
// reaches what comes in the place of memory that is still registered.
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbena/memory/registry.hpp"

namespace verbena::provider {

// As long as it lives, this registry hears of what is unmapped in the process; not in a forked
// child, where it is dead.
class MappingWatch {
 public:
  explicit MappingWatch(memory::Registry& registry) noexcept;
  ~MappingWatch();
  MappingWatch(const MappingWatch&) = delete;
  MappingWatch& operator=(const MappingWatch&) = delete;

  static void withdraw(std::uintptr_t address, std::size_t length, const char* by) noexcept;
  // Around a fork: between the two nobody is at the list.
  static void before_fork() noexcept;
  static void after_fork(bool in_child) noexcept;

 private:
  memory::Registry& registry_;
  MappingWatch* next_ = nullptr;
  bool is_listed_ = true;
};

}  // namespace verbena::provider
