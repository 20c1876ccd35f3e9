// SPDX-License-Identifier: BSD-2-Clause
// The page into which an engine counts, and which the emulator reads (control/stats_page.hpp).
#pragma once

#include "verbena/control/stats_page.hpp"

namespace verbena::provider {

class StatsMapping {
 public:
  StatsMapping() = default;
  ~StatsMapping();
  StatsMapping(const StatsMapping&) = delete;

  // Without it, page() is null and nothing is counted there.
  void map(int fd) noexcept;
  control::StatsPage* page() const noexcept { return page_; }

 private:
  control::StatsPage* page_ = nullptr;
};

}  // namespace verbena::provider
