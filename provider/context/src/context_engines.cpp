// SPDX-License-Identifier: BSD-2-Clause
// The further engines of an opened device: queue pairs whose completion queues have nothing in
// common are the business of different threads, most likely, and need not wait for each other's
// locks. Each engine is a context in all but the application's view: it has a connection, a socket,
// rings and a progress thread of its own, and the memory of the first. What takes part in more than
// that (shared receive queues, multicast, XRC, completion channels) is the first one's.
#include <fcntl.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "verbena/context/context.hpp"
#include "verbena/context/neighbours.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {
namespace {

constexpr std::size_t kMost = 8;

std::size_t processors() noexcept {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return static_cast<std::size_t>(std::max(CPU_COUNT(&allowed), 1));
}

// One for each processor, or as many as VERBENA_ENGINES says.
std::size_t engines_wanted() {
  const char* const text = ::secure_getenv("VERBENA_ENGINES");
  const std::string_view word = text != nullptr ? text : "";
  if (word.size() == 1 && word[0] >= '1' && word[0] <= '0' + static_cast<int>(kMost)) {
    return static_cast<std::size_t>(word[0] - '0');
  }
  static std::atomic<bool> told{false};
  if (!word.empty() && !told.exchange(true)) {
    std::fprintf(stderr,
                 "verbena: VERBENA_ENGINES=%s is no number from 1 to %zu; using one for each "
                 "processor\n",
                 text, kMost);
  }
  return std::min(processors(), kMost);
}

}  // namespace

Context::Context(Context& main, control::UniqueFd connection)
    : library_(main.library_),
      public_context_(main.public_context_),
      main_(main),
      channel_(std::move(connection)) {
  open_device(public_context_->device->name);
  start();
}

// With those that a completion queue has already, or the next one.
Context& Context::engine_for(Cq* send, Cq* receive, bool may_be_further) {
  const std::lock_guard guard(engines_lock_);
  const auto has_channel = [](const Cq* cq) { return cq != nullptr && cq->channel != nullptr; };
  Context* engine = this;
  if (may_be_further && !has_channel(send) && !has_channel(receive) && !imports_from_another()) {
    engine = receive->is_taken ? receive->engine.load(std::memory_order_relaxed)
             : send->is_taken  ? send->engine.load(std::memory_order_relaxed)
                               : &next_engine();
    if (engine == nullptr) engine = this;
  }
  for (Cq* cq : {send, receive}) {
    if (cq == nullptr) continue;
    const bool is_alone =
        !std::exchange(cq->is_taken, true) || cq->engine.load(std::memory_order_relaxed) == engine;
    cq->engine.store(is_alone ? engine : nullptr, std::memory_order_release);
  }
  return *engine;
}

// One after the other.
Context& Context::next_engine() {
  static_assert(kFurtherMost + 1 == kMost);
  if (engines_most_ == 0) engines_most_ = engines_wanted();
  const std::size_t which = engine_turn_++ % engines_most_;
  if (which == 0 || is_fatal()) return *this;
  if (which <= further_count_.read_relaxed()) return *further_[which - 1];
  Context* const made = make_further();
  if (made != nullptr) return *made;
  provider::explain(
      "no descriptor, thread or slot is left for a further engine: queue pairs share "
      "the %zu that are there, and threads their locks",
      which);
  engines_most_ = which;
  return *this;
}

// Null: there is no descriptor, no thread or no slot left, so the others do it.
Context* Context::make_further() {
  const std::string node = std::string("/dev/infiniband/") + public_context_->device->dev_name;
  control::UniqueFd connection(::open(node.c_str(), O_RDWR | O_CLOEXEC));
  if (!connection) return nullptr;
  const std::size_t count = further_count_.read_relaxed();
  try {
    auto further = std::make_unique<Context>(*this, std::move(connection));
    add_neighbour(*further, further->channel_.fd());
    further_[count] = std::move(further);
  } catch (const VerbRefused&) {
    return nullptr;
  }
  further_count_.publish(count + 1);
  return further_[count].get();
}

void Context::drive_all() noexcept {
  drive();
  const std::size_t count = further_count_.read();
  for (std::size_t i = 0; i < count; ++i) further_[i]->drive();
}

}  // namespace verbena::provider
