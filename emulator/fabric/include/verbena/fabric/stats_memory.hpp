// SPDX-License-Identifier: BSD-2-Clause
// The memory of one context's stats page and journal: a memfd, mapped here and in the context's
// process. Its size is sealed, so that the other process cannot shrink it under us.
#pragma once

#include <cstdint>
#include <utility>

#include "verbena/control/error.hpp"
#include "verbena/control/stats_page.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::fabric {

class StatsMemory {
 public:
  static control::Outcome<StatsMemory> create(std::uint32_t slot);

  const control::StatsPage& page() const { return shared_->page; }
  control::JournalRing& journal() { return shared_->journal; }
  int fd() const { return fd_.get(); }

 private:
  StatsMemory(control::UniqueFd fd, control::MappedStats shared)
      : fd_(std::move(fd)), shared_(std::move(shared)) {}

  control::UniqueFd fd_;
  control::MappedStats shared_;
};

}  // namespace verbena::fabric
