#include "live_contexts.hpp"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "context.hpp"
#include "neighbours.hpp"

namespace verbena::provider {
namespace {

struct Live {
  std::mutex lock;
  std::vector<Context*> contexts;
};

void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

// Never destroyed: the process may end while other threads still open and close.
Live& live() {
  static Live* const all = [] {
    ::pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
    return new Live;
  }();
  return *all;
}

void before_fork() {
  live().lock.lock();
  hold_neighbours();
  for (Context* c : live().contexts) c->pause();
}

void after_fork_in_parent() {
  for (Context* c : live().contexts) c->resume();
  free_neighbours();
  live().lock.unlock();
}

void after_fork_in_child() {
  for (Context* c : live().contexts) c->resume_dead();
  free_neighbours();
  live().lock.unlock();
}

__attribute__((destructor)) void at_exit() {
  const std::unique_lock guard(live().lock, std::try_to_lock);
  if (!guard.owns_lock()) return;
  for (Context* c : live().contexts) c->part();
}

}  // namespace

void add_live_context(Context& context) {
  const std::lock_guard guard(live().lock);
  live().contexts.push_back(&context);
}

void remove_live_context(Context& context) noexcept {
  const std::lock_guard guard(live().lock);
  std::erase(live().contexts, &context);
}

bool any_live_context(const std::function<bool(Context&)>& found) noexcept {
  const std::lock_guard guard(live().lock);
  return std::any_of(live().contexts.begin(), live().contexts.end(),
                     [&](Context* context) { return found(*context); });
}

}  // namespace verbena::provider
