// SPDX-License-Identifier: BSD-2-Clause
// An application's thread that blocks in ibv_get_cq_event does the progress thread's work until its
// event comes: a packet then wakes the thread that waits for it, not first another one that wakes
// it. The preload library hands us the blocking read of a completion channel. Without it, while
// another thread does so already, and where several channels are waited for, the progress thread
// does the work, and the read is a plain one.
#pragma once

namespace verbena::provider {

// Reads of this channel come to us from now on.
void offer_channel(int fd) noexcept;

}  // namespace verbena::provider
