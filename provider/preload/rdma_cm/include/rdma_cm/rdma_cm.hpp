// SPDX-License-Identifier: BSD-2-Clause
// /dev/infiniband/rdma_cm: each descriptor is an event channel, a connection to the emulator on
// which one message comes for the events that came together. So poll, epoll, O_NONBLOCK, blocking
// and signals work as on any socket; fetching is a look into shared memory (event_pages.hpp), for
// the last of them with a receive, or a question. What a library asks about the ID after an event
// has come with it (verbena/preload/cm_answer_cache.hpp). Commands go over connections of the
// process's own (cm_connection.hpp) or, where the event has promised that they succeed, over the
// channel and without an answer.
#pragma once

#include "nodes/node.hpp"

namespace verbena::preload {

extern const NodeClass kRdmaCmClass;

}  // namespace verbena::preload
