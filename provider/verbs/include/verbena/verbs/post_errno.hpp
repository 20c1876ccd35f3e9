// SPDX-License-Identifier: BSD-2-Clause
// The errno of a refused post; shared by ibv_post_send and the ibv_wr_* builder.
#pragma once

#include "verbena/objects/objects.hpp"
#include "verbena/requester/requester.hpp"

namespace verbena::provider {

// FENCE, SIGNALED, SOLICITED and INLINE have the same values in the engine.
inline constexpr unsigned kWorkFlags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
static_assert(+IBV_SEND_FENCE == +queue::kFence && +IBV_SEND_SIGNALED == +queue::kSignaled &&
              +IBV_SEND_SOLICITED == +queue::kSolicited && +IBV_SEND_INLINE == +queue::kInline);

// `request` is the refused request; null if there were too many.
int errno_of_posted(const Qp& qp, requester::Posted posted,
                    const queue::SendRequest* request) noexcept;
// Returns the errno for a queue pair that takes no requests now, or never does.
int errno_of_state(const char* verb, const Qp& qp) noexcept;

}  // namespace verbena::provider
