// SPDX-License-Identifier: BSD-2-Clause
// What the emulator orders an engine's links to do: inject faults, record a capture. Owned by the
// attached engine; under the client's lock.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "verbena/context/failing_calls.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/stats_page.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/engine/engine.hpp"
#include "verbena/fault/script.hpp"

namespace verbena::provider {

class LinkOrders {
 public:
  // `stats`: where faults are counted; null: nowhere. `calls`: the program's, of one engine only.
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

 private:
  void choose_packs(bool must_be_ordinary);
  struct Scripts {
    std::vector<fault::ActiveRule> packets;
    std::vector<fault::ActiveRule> calls;
  };
  // Those about what this program sends from this device, or calls it for.
  Scripts scripts_of(const std::vector<control::RuleSpec>& specs);

  Engine* engine_ = nullptr;
  Links* links_ = nullptr;
  std::string device_;
  control::StatsPage* stats_ = nullptr;
  FailingCalls* calls_ = nullptr;
  bool has_faults_ = false;  // of this engine's own links
};

}  // namespace verbena::provider
