// SPDX-License-Identifier: BSD-2-Clause
// The engines of a context. Queue pairs whose completion queues have nothing in common most likely
// belong to different threads, which need not wait for each other's locks. Therefore there may be
// an engine for each processor, made when a queue pair wants it. Each engine has its own
// connection, socket, rings and progress thread, and shares the memory of the first. Objects that
// take part in several engines (shared receive queues, multicast, XRC, completion channels) belong
// to the first.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>

#include "verbena/base/lock.hpp"
#include "verbena/context/attached_engine.hpp"

namespace verbena::provider {

struct Cq;

class Engines {
 public:
  static constexpr std::size_t kMost = 8;

  explicit Engines(Context& owner) : owner_(owner) {}

  // Throws VerbRefused.
  void open_first(control::Channel channel, const char* device);
  AttachedEngine& first() noexcept { return *all_[0]; }
  const AttachedEngine& first() const noexcept { return *all_[0]; }
  // Chooses the engine of a queue pair with these completion queues (null: none): the engine that
  // the queues have already, or the next one.
  AttachedEngine& choose(Cq* send, Cq* receive, bool may_be_further);
  // Visits the engines, except for one that is being made.
  template <typename Visit>
  void for_each(Visit&& visit) {
    const std::size_t count = count_.read();
    for (std::size_t i = 0; i < count; ++i) visit(*all_[i]);
  }
  // While the caller holds it, no engine is made.
  std::mutex& lock() noexcept { return lock_; }
  // Ends the further engines. The first one stops and ends after them.
  void end_further() noexcept;
  void end_first() noexcept { all_[0].reset(); }

 private:
  AttachedEngine& next();
  AttachedEngine* make_further();
  AttachedEngine* attached(const Engine* engine) noexcept;

  Context& owner_;
  std::mutex lock_;
  std::array<std::unique_ptr<AttachedEngine>, kMost> all_;  // existing engines come first
  Published<std::size_t> count_{0};
  std::size_t most_ = 0;  // 0: not asked yet
  std::size_t turn_ = 0;
};

}  // namespace verbena::provider
