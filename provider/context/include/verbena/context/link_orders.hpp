// SPDX-License-Identifier: BSD-2-Clause
// The emulator's orders to an engine's links: inject faults, record a capture. Owned by the
// attached engine; called under the client's lock.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "verbena/base/lock.hpp"
#include "verbena/context/failing_calls.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/stats_page.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/engine/engine.hpp"
#include "verbena/fault/script.hpp"

namespace verbena::provider {

class LinkOrders {
 public:
  // `stats` is where faults are counted, or null. `calls` are the program's; only one engine has
  // them.
  void attach(Engine& engine, std::string device, control::StatsPage* stats, FailingCalls* calls) {
    engine_ = &engine;
    links_ = &engine.links();
    device_ = std::move(device);
    stats_ = stats;
    calls_ = calls;
  }
  void on_capture(control::CaptureOrder&& order, const control::UniqueFd& ring);
  void on_faults(const std::vector<control::FaultSpec>& faults,
                 const std::vector<control::RuleSpec>& rules);
  // Returns whether a single queue pair of this device has a fault. Any thread may ask.
  bool names_queue_pairs() const noexcept { return names_queue_pairs_.read_relaxed(); }

 private:
  void choose_packs(bool must_be_ordinary);
  struct Scripts {
    std::vector<fault::ActiveRule> packets;
    std::vector<fault::ActiveRule> calls;
  };
  // Returns the rules about what this program sends from this device and about its calls there.
  Scripts scripts_of(const std::vector<control::RuleSpec>& specs);

  Engine* engine_ = nullptr;
  Links* links_ = nullptr;
  std::string device_;
  control::StatsPage* stats_ = nullptr;
  FailingCalls* calls_ = nullptr;
  bool has_faults_ = false;  // faults on this engine's own links
  Published<bool> names_queue_pairs_{false};
};

}  // namespace verbena::provider
