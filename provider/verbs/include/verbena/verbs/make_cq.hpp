// SPDX-License-Identifier: BSD-2-Clause
// What both kinds of completion queues share: making one, and driving when it is polled.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "verbena/context/context.hpp"

namespace verbena::provider {

struct CqRequest {
  const char* verb = "";
  std::int64_t cqe = 0;  // as the program gave it, for messages
  ibv_comp_channel* channel = nullptr;
  std::int64_t vector = 0;
  bool ignore_overrun = false;
  bool single_threaded = false;
  bool timestamps = false;
};

// Throws VerbRefused.
Cq* make_cq(Context& context, const CqRequest& request);
// Receives for this queue, when it is polled.
void drive(Cq& cq) noexcept;

}  // namespace verbena::provider
