// SPDX-License-Identifier: BSD-2-Clause
// Functions of librdmacm that shall fail (verbena/control/planned_failures.hpp). Each asks the
// connection manager for one thing by a command that it writes to /dev/infiniband/rdma_cm; the
// command is refused, and the function fails with its errno. So it reaches every program that has
// librdmacm, however it was loaded, and none of librdmacm's own functions is stood in for.
#pragma once

#include <cstdint>
#include <span>

namespace verbena::preload::failing_calls {

// The errno with which the command that is about to be written fails; 0: it does not. Explains it,
// as VERBENA_LOG says.
int error_of_command(std::span<const std::uint8_t> command) noexcept;

// The same for the opening of an event channel.
int error_of_opening() noexcept;

}  // namespace verbena::preload::failing_calls
