// SPDX-License-Identifier: BSD-2-Clause
// The engines of a context. Queue pairs whose completion queues have nothing in common are the
// business of different threads, most likely, and need not wait for each other's locks: so there is
// an engine for each processor, made when a queue pair wants it. Each has a connection, a socket,
// rings and a progress thread of its own, and the memory of the first. What takes part in more than
// one (shared receive queues, multicast, XRC, completion channels) is the first one's.
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
  // Which shall have a queue pair with these completion queues (null: none): that which the queues
  // have already, or the next one.
  AttachedEngine& choose(Cq* send, Cq* receive, bool may_be_further);
  // For a completion queue whose queue pairs have several.
  void drive_all() noexcept;
  // The further ones end; then the first stops, and ends.
  void end_further() noexcept;
  void end_first() noexcept { all_[0].reset(); }

 private:
  AttachedEngine& next();
  AttachedEngine* make_further();
  AttachedEngine* attached(const Engine* engine) noexcept;

  Context& owner_;
  std::mutex lock_;
  std::array<std::unique_ptr<AttachedEngine>, kMost> all_;  // those that are there come first
  Published<std::size_t> count_{0};
  std::size_t most_ = 0;  // 0: not asked yet
  std::size_t turn_ = 0;
};

}  // namespace verbena::provider
