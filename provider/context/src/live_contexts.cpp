// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/live_contexts.hpp"

#include <pthread.h>

#include "verbena/context/context.hpp"
#include "verbena/context/neighbours.hpp"
#include "verbena/objects/mapping_watch.hpp"

namespace verbena::provider {
namespace {

void before_fork() {
  live_contexts().lock.lock();
  hold_neighbours();
  for (Context* c : live_contexts().all) c->pause();
  MappingWatch::before_fork();
}

void after_fork_in_parent() {
  MappingWatch::after_fork(false);
  for (Context* c : live_contexts().all) c->resume();
  free_neighbours();
  live_contexts().lock.unlock();
}

void after_fork_in_child() {
  MappingWatch::after_fork(true);
  for (Context* c : live_contexts().all) c->resume_dead();
  free_neighbours();
  live_contexts().lock.unlock();
}

__attribute__((destructor)) void at_exit() {
  const std::unique_lock guard(live_contexts().lock, std::try_to_lock);
  if (!guard.owns_lock()) return;
  for (Context* c : live_contexts().all) c->part();
}

}  // namespace

// Never destroyed: the process may end while other threads still open and close.
LiveContexts& live_contexts() {
  static LiveContexts* const all = [] {
    ::pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
    return new LiveContexts;
  }();
  return *all;
}

void add_live_context(Context& context) {
  const std::lock_guard guard(live_contexts().lock);
  live_contexts().all.push_back(&context);
}

void remove_live_context(Context& context) noexcept {
  const std::lock_guard guard(live_contexts().lock);
  std::erase(live_contexts().all, &context);
}

}  // namespace verbena::provider
