// SPDX-License-Identifier: BSD-2-Clause
// Makes functions of librdmacm fail as planned (verbena/control/planned_failures.hpp). Each
// function asks the connection manager for one thing, by a command that it writes to
// /dev/infiniband/rdma_cm. The command is refused, and the function fails with its errno. This
// reaches every program that has librdmacm, however it was loaded, and replaces no function of
// librdmacm.
#pragma once

#include <cstdint>
#include <span>

namespace verbena::preload::failing_calls {

// Returns the errno with which the command that is about to be written fails, or 0 if it does not.
// Explains the failure if VERBENA_LOG asks for it.
int error_of_command(std::span<const std::uint8_t> command) noexcept;

// Returns the errno with which the opening of an event channel fails, or 0 if it does not.
int error_of_opening() noexcept;

}  // namespace verbena::preload::failing_calls
