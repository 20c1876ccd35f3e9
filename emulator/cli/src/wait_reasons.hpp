// SPDX-License-Identifier: BSD-2-Clause
// What one program waits for, as far as its objects and those of its peers tell. Pure.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "program_status.hpp"

namespace verbena::cli {

using Programs = std::vector<std::unique_ptr<ProgramStatus>>;

// Of `program`, one of `now`; the worst first. `earlier`: the same programs a moment ago, by which
// one that is at work is known; empty: none is.
std::vector<std::string> reasons_of(const ProgramStatus& program, const Programs& now,
                                    const Programs& earlier);

}  // namespace verbena::cli
