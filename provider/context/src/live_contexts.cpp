// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/live_contexts.hpp"

#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "verbena/context/context.hpp"
#include "verbena/objects/mapping_watch.hpp"
#include "verbena/progress/last_threads.hpp"

namespace verbena::provider {
namespace {

// A context of this process.
struct Known {
  Context* context;
  std::uint64_t cookie;  // identifies its control socket; duplicates have the same
  std::uint32_t handles;
  std::vector<ibv_context*> further;  // handles beside the first
};

struct LiveContexts {
  std::mutex lock;
  std::vector<Known> all;
};

Known* find(std::vector<Known>& all, const Context& context) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Known& n) { return n.context == &context; });
  return found != all.end() ? &*found : nullptr;
}

LiveContexts& live_contexts();

void before_fork() {
  live_contexts().lock.lock();
  for (const Known& known : live_contexts().all) known.context->pause();
  MappingWatch::before_fork();
}

void after_fork_in_parent() {
  MappingWatch::after_fork(false);
  for (const Known& known : live_contexts().all) known.context->resume();
  live_contexts().lock.unlock();
}

void after_fork_in_child() {
  MappingWatch::after_fork(true);
  last_threads::begin_anew();
  for (const Known& known : live_contexts().all) known.context->resume_dead();
  live_contexts().lock.unlock();
}

__attribute__((destructor)) void at_exit() {
  const std::unique_lock guard(live_contexts().lock, std::try_to_lock);
  if (!guard.owns_lock()) return;
  for (const Known& known : live_contexts().all) {
    known.context->engines().for_each([](AttachedEngine& engine) { engine.part(); });
  }
}

// The list is never destroyed: the process may end while other threads still open and close.
LiveContexts& live_contexts() {
  static LiveContexts* const all = [] {
    ::pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
    return new LiveContexts;
  }();
  return *all;
}

std::uint64_t cookie_of(int socket) {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  return ::getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

}  // namespace

void add_context(Context& context) {
  LiveContexts& n = live_contexts();
  const std::lock_guard guard(n.lock);
  n.all.push_back({&context, cookie_of(context.public_context()->cmd_fd), 1, {}});
}

void remove_context(const Context& context) noexcept {
  LiveContexts& n = live_contexts();
  const std::lock_guard guard(n.lock);
  std::erase_if(n.all, [&](const Known& known) { return known.context == &context; });
}

Context* share_context(int cmd_fd) noexcept {
  const std::uint64_t cookie = cookie_of(cmd_fd);
  LiveContexts& n = live_contexts();
  const std::lock_guard guard(n.lock);
  for (Known& known : n.all) {
    if (cookie == 0 || known.cookie != cookie || known.handles == 0) continue;
    ++known.handles;
    return known.context;
  }
  return nullptr;
}

bool release_context(Context& context) noexcept {
  LiveContexts& n = live_contexts();
  const std::lock_guard guard(n.lock);
  Known* known = find(n.all, context);
  return known == nullptr || --known->handles == 0;
}

void add_handle(Context& context, ibv_context* handle) {
  LiveContexts& n = live_contexts();
  const std::lock_guard guard(n.lock);
  if (Known* known = find(n.all, context)) known->further.push_back(handle);
}

void remove_handle(Context& context, ibv_context* handle) noexcept {
  LiveContexts& n = live_contexts();
  const std::lock_guard guard(n.lock);
  if (Known* known = find(n.all, context)) std::erase(known->further, handle);
}

bool is_handle_of(Context& context, const ibv_context* handle) noexcept {
  if (handle == context.public_context()) return true;
  LiveContexts& n = live_contexts();
  const std::lock_guard guard(n.lock);
  const Known* known = find(n.all, context);
  return known != nullptr &&
         std::find(known->further.begin(), known->further.end(), handle) != known->further.end();
}

bool any_live_context(const std::function<bool(Context&)>& found) {
  LiveContexts& n = live_contexts();
  const std::lock_guard guard(n.lock);
  return std::any_of(n.all.begin(), n.all.end(),
                     [&](const Known& known) { return found(*known.context); });
}

void wake_live_contexts() noexcept {
  LiveContexts& n = live_contexts();
  const std::lock_guard guard(n.lock);
  for (const Known& known : n.all) {
    known.context->engines().for_each([](AttachedEngine& engine) { engine.engine().wake(); });
  }
}

}  // namespace verbena::provider
