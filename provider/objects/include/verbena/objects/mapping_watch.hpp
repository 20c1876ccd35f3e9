// SPDX-License-Identifier: BSD-2-Clause
// Learns from the preload library (control/memory_guard.hpp) what the program unmaps, so that a key
// of memory that is still registered does not reach what is mapped in its place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbena/memory/registry.hpp"

namespace verbena::provider {

// While a watch lives, its registry is told what the process unmaps. This ends in a forked child,
// where the registry is dead.
class MappingWatch {
 public:
  explicit MappingWatch(memory::Registry& registry) noexcept;
  ~MappingWatch();
  MappingWatch(const MappingWatch&) = delete;
  MappingWatch& operator=(const MappingWatch&) = delete;

  static void withdraw(std::uintptr_t address, std::size_t length, const char* by) noexcept;
  // Around a fork, no other thread changes the list between these two.
  static void before_fork() noexcept;
  static void after_fork(bool in_child) noexcept;

 private:
  memory::Registry& registry_;
  MappingWatch* next_ = nullptr;
  bool is_listed_ = true;
};

}  // namespace verbena::provider
