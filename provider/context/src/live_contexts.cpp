// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/live_contexts.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "verbena/context/context.hpp"

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

// The list is never destroyed: the process may end while other threads still open and close.
LiveContexts& live_contexts() {
  static LiveContexts* const all = new LiveContexts;
  return *all;
}

std::uint64_t cookie_of(int socket) {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  return ::getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

}  // namespace

void add_context(Context& context, int cmd_fd) {
  LiveContexts& n = live_contexts();
  const std::lock_guard guard(n.lock);
  n.all.push_back({&context, cookie_of(cmd_fd), 1, {}});
}

Context* share_context(int cmd_fd) noexcept {
  const std::uint64_t cookie = cookie_of(cmd_fd);
  LiveContexts& n = live_contexts();
  const std::lock_guard guard(n.lock);
  for (Known& known : n.all) {
    if (cookie == 0 || known.cookie != cookie) continue;
    ++known.handles;
    return known.context;
  }
  return nullptr;
}

bool release_context(Context& context) noexcept {
  LiveContexts& n = live_contexts();
  const std::lock_guard guard(n.lock);
  const auto known = std::find_if(n.all.begin(), n.all.end(),
                                  [&](const Known& x) { return x.context == &context; });
  if (known == n.all.end()) return true;
  if (--known->handles != 0) return false;
  n.all.erase(known);
  return true;
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

void hold_live_contexts() { live_contexts().lock.lock(); }
void free_live_contexts() noexcept { live_contexts().lock.unlock(); }

}  // namespace verbena::provider
