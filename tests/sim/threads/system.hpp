// SPDX-License-Identifier: BSD-2-Clause
// What the test tells the product's system (system.cpp), and asks of it.
#pragma once

#include <cstdint>

#include "machine.hpp"

namespace verbena::threads {

// Sets the processors that the next thread of the product may use.
void set_processors_of_next_thread(std::uint32_t processors);
Thread& thread_made_last();

}  // namespace verbena::threads
