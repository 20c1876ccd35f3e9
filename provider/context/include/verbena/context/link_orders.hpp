// SPDX-License-Identifier: BSD-2-Clause
// What the emulator orders an engine's links to do: inject faults, record a capture. Owned by the
// attached engine; under the client's lock.
#pragma once

#include <vector>

#include "verbena/control/messages.hpp"
#include "verbena/control/stats_page.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/engine/links.hpp"

namespace verbena::provider {

class LinkOrders {
 public:
  // `stats`: where faults are counted; null: nowhere.
  void attach(Links& links, control::StatsPage* stats) noexcept {
    links_ = &links;
    stats_ = stats;
  }
  void on_capture(control::CaptureOrder&& order, const control::UniqueFd& ring);
  void on_faults(const std::vector<control::FaultSpec>& faults);

 private:
  void choose_packs(bool must_be_ordinary);

  Links* links_ = nullptr;
  control::StatsPage* stats_ = nullptr;
  bool has_faults_ = false;  // of this engine's own links
};

}  // namespace verbena::provider
