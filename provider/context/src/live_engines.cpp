// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/live_engines.hpp"

#include <pthread.h>

#include "verbena/context/attached_engine.hpp"
#include "verbena/context/live_contexts.hpp"
#include "verbena/objects/mapping_watch.hpp"
#include "verbena/progress/last_threads.hpp"

namespace verbena::provider {
namespace {

void before_fork() {
  live_engines().lock.lock();
  hold_live_contexts();
  for (AttachedEngine* e : live_engines().all) e->pause();
  MappingWatch::before_fork();
}

void after_fork_in_parent() {
  MappingWatch::after_fork(false);
  for (AttachedEngine* e : live_engines().all) e->resume();
  free_live_contexts();
  live_engines().lock.unlock();
}

void after_fork_in_child() {
  MappingWatch::after_fork(true);
  last_threads::begin_anew();
  for (AttachedEngine* e : live_engines().all) e->resume_dead();
  free_live_contexts();
  live_engines().lock.unlock();
}

__attribute__((destructor)) void at_exit() {
  const std::unique_lock guard(live_engines().lock, std::try_to_lock);
  if (!guard.owns_lock()) return;
  for (AttachedEngine* e : live_engines().all) e->part();
}

}  // namespace

// The list is never destroyed: the process may end while other threads still open and close.
LiveEngines& live_engines() {
  static LiveEngines* const all = [] {
    ::pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
    return new LiveEngines;
  }();
  return *all;
}

void wake_live_engines() noexcept {
  const std::lock_guard guard(live_engines().lock);
  for (AttachedEngine* e : live_engines().all) e->engine().wake();
}

void add_live_engine(AttachedEngine& engine) {
  const std::lock_guard guard(live_engines().lock);
  live_engines().all.push_back(&engine);
}

void remove_live_engine(AttachedEngine& engine) noexcept {
  const std::lock_guard guard(live_engines().lock);
  std::erase(live_engines().all, &engine);
}

}  // namespace verbena::provider
