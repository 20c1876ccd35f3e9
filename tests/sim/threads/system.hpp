// SPDX-License-Identifier: BSD-2-Clause
// The system as the product's code finds it (system.cpp): what the test tells it and asks of it.
#pragma once

#include <cstdint>

#include "machine.hpp"

namespace verbena::threads {

// A thread that the product makes may use these, as it would have them of its creator.
void set_processors_of_next_thread(std::uint32_t processors);
Thread& thread_made_last();

}  // namespace verbena::threads
