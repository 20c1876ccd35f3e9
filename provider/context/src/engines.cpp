// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/engines.hpp"

#include <fcntl.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include "verbena/base/standard_streams.hpp"
#include "verbena/context/context.hpp"
#include "verbena/control/runtime_dir.hpp"
#include "verbena/control/user_lines.hpp"
#include "verbena/report/explain.hpp"
#include "verbena/report/setting.hpp"

namespace verbena::provider {
namespace {

constexpr std::size_t kMost = Engines::kMost;

std::size_t processors() noexcept {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return static_cast<std::size_t>(std::max(CPU_COUNT(&allowed), 1));
}

// Returns one engine for each processor, or as many as VERBENA_ENGINES says.
std::size_t engines_wanted() {
  const char* const text = setting("VERBENA_ENGINES");
  const std::string_view word = text != nullptr ? text : "";
  if (word.size() == 1 && word[0] >= '1' && word[0] <= '0' + static_cast<int>(kMost)) {
    return static_cast<std::size_t>(word[0] - '0');
  }
  static std::atomic<bool> told{false};
  if (!word.empty() && !told.exchange(true)) {
    control::tell_user(
        "VERBENA_ENGINES=%s is no number from 1 to %zu; using one for each processor", text, kMost);
  }
  return std::min(processors(), kMost);
}

}  // namespace

void Engines::open_first(control::Channel channel, const char* device) {
  all_[0] = std::make_unique<AttachedEngine>(owner_, std::move(channel), device, nullptr);
  count_.publish(1);
}

AttachedEngine* Engines::attached(const Engine* engine) noexcept {
  for (const auto& one : all_) {
    if (one && &one->engine() == engine) return one.get();
  }
  return nullptr;
}

AttachedEngine& Engines::choose(Cq* send, Cq* receive, bool may_be_further) {
  const std::lock_guard guard(lock_);
  const auto has_channel = [](const Cq* cq) { return cq != nullptr && cq->channel != nullptr; };
  const auto engine_of = [this](const Cq& cq) {
    return attached(cq.engine.load(std::memory_order_relaxed));
  };
  AttachedEngine* chosen = &first();
  if (may_be_further && !has_channel(send) && !has_channel(receive) &&
      !owner_.imports().are_from_another()) {
    chosen = receive->is_taken ? engine_of(*receive) : send->is_taken ? engine_of(*send) : &next();
    if (chosen == nullptr) chosen = &first();
  }
  Engine* const engine = &chosen->engine();
  for (Cq* cq : {send, receive}) {
    if (cq == nullptr) continue;
    const bool is_alone =
        !std::exchange(cq->is_taken, true) || cq->engine.load(std::memory_order_relaxed) == engine;
    cq->engine.store(is_alone ? engine : nullptr, std::memory_order_release);
  }
  return *chosen;
}

// Returns the engines in turn.
AttachedEngine& Engines::next() {
  if (most_ == 0) most_ = engines_wanted();
  const std::size_t which = turn_++ % most_;
  if (which == 0 || first().has_failed()) return first();
  if (which < count_.read_relaxed()) return *all_[which];
  AttachedEngine* const made = make_further();
  if (made != nullptr) return *made;
  explain(
      "no descriptor, thread or slot is left for a further engine, or the emulator is out of "
      "reach: queue pairs share the %zu that are there, and threads their locks",
      which);
  most_ = which;
  return first();
}

// Returns null if there is no descriptor, thread or slot left, or the emulator is out of reach; the
// existing engines are used then.
AttachedEngine* Engines::make_further() {
  // A program that has changed its user or its root directory cannot open a node any more.
  if (!control::check_runtime_dir(control::runtime_dir_path(&setting))) return nullptr;
  const ibv_device& device = *owner_.public_context()->device;
  const std::string node = std::string("/dev/infiniband/") + device.dev_name;
  control::UniqueFd connection(beyond_streams(::open(node.c_str(), O_RDWR | O_CLOEXEC)));
  if (!connection) return nullptr;
  const std::size_t count = count_.read_relaxed();
  try {
    auto further = std::make_unique<AttachedEngine>(owner_, control::Channel(std::move(connection)),
                                                    device.name, &first());
    further->start();
    all_[count] = std::move(further);
  } catch (const VerbRefused&) {
    return nullptr;
  }
  count_.publish(count + 1);
  return all_[count].get();
}

void Engines::end_further() noexcept {
  for (std::size_t i = 1; i < kMost; ++i) all_[i].reset();
}

}  // namespace verbena::provider
