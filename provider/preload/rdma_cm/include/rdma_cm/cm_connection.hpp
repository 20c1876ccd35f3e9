// SPDX-License-Identifier: BSD-2-Clause
// The connections that carry rdma_cm commands to the emulator. A few are kept for reuse, without a
// lock: a thread that needs a connection takes it out and puts it back. A connection that was made
// before a fork, or whose number the program has closed and reused, is detected and not used. Any
// thread may call this, inside a Section.
#pragma once

#include "verbena/control/cm_messages.hpp"
#include "verbena/control/error.hpp"

namespace verbena::preload {

control::Outcome<control::CmReply> send_cm_command(const control::CmCommand& command);

}  // namespace verbena::preload
