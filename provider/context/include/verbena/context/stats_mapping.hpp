// SPDX-License-Identifier: BSD-2-Clause
// Memory that an engine shares with the emulator, which reads it (control/stats_page.hpp): the page
// in which the engine counts, and its journal.
#pragma once

#include "verbena/control/stats_page.hpp"

namespace verbena::provider {

class StatsMapping {
 public:
  StatsMapping() = default;
  ~StatsMapping();
  StatsMapping(const StatsMapping&) = delete;

  // If this fails, both pointers are null, and nothing is counted or told there.
  void map(int fd) noexcept;
  control::StatsPage* page() const noexcept {
    return shared_ == nullptr ? nullptr : &shared_->page;
  }
  control::JournalRing* journal() const noexcept {
    return shared_ == nullptr ? nullptr : &shared_->journal;
  }

 private:
  control::SharedStats* shared_ = nullptr;
};

}  // namespace verbena::provider
