// SPDX-License-Identifier: BSD-2-Clause
// How a thread sleeps on a taken `verbena::Lock`: on a futex. The engine makes no system calls, so
// this room installs the function that does, once, before threads share an engine. Idempotent.
#pragma once

namespace verbena::link {

void install_futex_lock_waiter() noexcept;

}  // namespace verbena::link
