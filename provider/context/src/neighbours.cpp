// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/neighbours.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "verbena/context/context.hpp"

namespace verbena::provider {
namespace {

struct Known {
  Context* context;
  std::uint64_t cookie;  // of its control socket, the same in each duplicate
  std::uint32_t handles;
  std::vector<ibv_context*> further;  // beside the first
};

struct Neighbours {
  std::mutex lock;
  std::vector<Known> all;
};

Known* find(std::vector<Known>& all, const Context& context) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Known& n) { return n.context == &context; });
  return found != all.end() ? &*found : nullptr;
}

// Never destroyed: the process may end while other threads still open and close.
Neighbours& neighbours() {
  static Neighbours* const all = new Neighbours;
  return *all;
}

std::uint64_t cookie_of(int socket) {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  return ::getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

}  // namespace

void add_neighbour(Context& context, int cmd_fd) {
  Neighbours& n = neighbours();
  const std::lock_guard guard(n.lock);
  for (const Known& other : n.all) other.context->neighbourhood().reserve(n.all.size());
  context.neighbourhood().reserve(n.all.size());
  n.all.push_back({&context, cookie_of(cmd_fd), 1, {}});
  for (const Known& other : n.all) {
    if (other.context == &context) continue;
    other.context->neighbourhood().add(context);
    context.neighbourhood().add(*other.context);
  }
}

Context* share_context(int cmd_fd) noexcept {
  const std::uint64_t cookie = cookie_of(cmd_fd);
  Neighbours& n = neighbours();
  const std::lock_guard guard(n.lock);
  for (Known& known : n.all) {
    if (cookie == 0 || known.cookie != cookie) continue;
    ++known.handles;
    return known.context;
  }
  return nullptr;
}

bool release_context(Context& context) noexcept {
  Neighbours& n = neighbours();
  const std::lock_guard guard(n.lock);
  const auto known = std::find_if(n.all.begin(), n.all.end(),
                                  [&](const Known& x) { return x.context == &context; });
  if (known == n.all.end()) return true;
  if (--known->handles != 0) return false;
  n.all.erase(known);
  for (const Known& other : n.all) other.context->neighbourhood().remove(context);
  return true;
}

void add_handle(Context& context, ibv_context* handle) {
  Neighbours& n = neighbours();
  const std::lock_guard guard(n.lock);
  if (Known* known = find(n.all, context)) known->further.push_back(handle);
}

void remove_handle(Context& context, ibv_context* handle) noexcept {
  Neighbours& n = neighbours();
  const std::lock_guard guard(n.lock);
  if (Known* known = find(n.all, context)) std::erase(known->further, handle);
}

bool is_handle_of(Context& context, const ibv_context* handle) noexcept {
  if (handle == context.public_context()) return true;
  Neighbours& n = neighbours();
  const std::lock_guard guard(n.lock);
  const Known* known = find(n.all, context);
  return known != nullptr &&
         std::find(known->further.begin(), known->further.end(), handle) != known->further.end();
}

void hold_neighbours() { neighbours().lock.lock(); }
void free_neighbours() noexcept { neighbours().lock.unlock(); }

}  // namespace verbena::provider
