// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/objects/mapping_watch.hpp"

#include "verbena/base/lock.hpp"

namespace verbena::provider {
namespace {

// Guards the list of watches. Its holder neither allocates nor waits for long.
constinit Lock list_lock;
constinit MappingWatch* first_watch = nullptr;

// Lasts tens of milliseconds.
constexpr std::uint32_t kLooks = 1u << 20;

}  // namespace

MappingWatch::MappingWatch(memory::Registry& registry) noexcept : registry_(registry) {
  const Guard guard(list_lock);
  next_ = first_watch;
  first_watch = this;
}

MappingWatch::~MappingWatch() {
  const Guard guard(list_lock);
  if (!is_listed_) return;
  MappingWatch** at = &first_watch;
  while (*at != this) at = &(*at)->next_;
  *at = next_;
}

void MappingWatch::withdraw(std::uintptr_t address, std::size_t length, const char* by) noexcept {
  if (!list_lock.lock_within(kLooks)) return;
  for (MappingWatch* w = first_watch; w != nullptr; w = w->next_) {
    w->registry_.withdraw(address, length, by);
  }
  list_lock.unlock();
}

void MappingWatch::before_fork() noexcept { list_lock.lock(); }

void MappingWatch::after_fork(bool in_child) noexcept {
  if (in_child) {
    for (MappingWatch* w = first_watch; w != nullptr; w = w->next_) w->is_listed_ = false;
    first_watch = nullptr;
  }
  list_lock.unlock();
}

}  // namespace verbena::provider
