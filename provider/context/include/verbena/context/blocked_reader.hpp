// SPDX-License-Identifier: BSD-2-Clause
// An application's thread that blocks in ibv_get_cq_event drives the engine until its event comes.
// A packet then wakes the thread that waits for it directly, instead of the progress thread, which
// would have to wake it. The preload library hands us the blocking read of a completion channel.
// The progress thread drives instead, and the read is a plain one, if there is no preload library,
// if another thread already drives like this, or if the application waits for several channels.
#pragma once

namespace verbena::provider {

// Asks the preload library to hand us reads of this channel from now on.
void offer_channel(int fd) noexcept;

}  // namespace verbena::provider
