// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/neighbours.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "verbena/context/context.hpp"

namespace verbena::provider {
namespace {

// An opened device.
struct Known {
  Context* context;
  std::uint64_t cookie;  // of its control socket, the same in each duplicate
  std::uint32_t handles;
  std::vector<ibv_context*> further;  // beside the first
};

struct Neighbours {
  std::mutex lock;
  std::vector<Engine*> engines;
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

// Under the lock. Throws std::bad_alloc, and nothing has happened then.
void add_engine(Neighbours& n, Engine& engine) {
  n.engines.reserve(n.engines.size() + 1);
  for (Engine* other : n.engines) other->neighbourhood().reserve(n.engines.size());
  engine.neighbourhood().reserve(n.engines.size());
  for (Engine* other : n.engines) {
    other->neighbourhood().add(engine);
    engine.neighbourhood().add(*other);
  }
  n.engines.push_back(&engine);
}

void remove_engine(Neighbours& n, const Engine& engine) noexcept {
  if (std::erase(n.engines, &engine) == 0) return;
  for (Engine* other : n.engines) other->neighbourhood().remove(engine);
}

}  // namespace

void add_neighbour(Engine& engine) {
  Neighbours& n = neighbours();
  const std::lock_guard guard(n.lock);
  add_engine(n, engine);
}

void remove_neighbour(const Engine& engine) noexcept {
  Neighbours& n = neighbours();
  const std::lock_guard guard(n.lock);
  remove_engine(n, engine);
}

void add_context(Context& context, int cmd_fd) {
  Neighbours& n = neighbours();
  const std::lock_guard guard(n.lock);
  n.all.reserve(n.all.size() + 1);
  add_engine(n, context.first().engine());
  n.all.push_back({&context, cookie_of(cmd_fd), 1, {}});
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
  remove_engine(n, context.first().engine());
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
