// SPDX-License-Identifier: BSD-2-Clause
// Finds what one program waits for, as far as its objects and those of its peers tell. Pure.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "departures.hpp"
#include "program_status.hpp"

namespace verbena::cli {

using Programs = std::vector<std::unique_ptr<ProgramStatus>>;

struct Surroundings {
  const Programs& now;
  // The programs a moment ago, by which a program is known to be at work; empty: none is.
  const Programs& earlier;
  // Tells who had a queue pair that no program has now.
  std::function<Departures::Owner(const Departures::Missing&)> owner_of;
};

// Returns what `program`, one of `now`, waits for, the worst first.
std::vector<std::string> reasons_of(const ProgramStatus& program, const Surroundings& around);

}  // namespace verbena::cli
