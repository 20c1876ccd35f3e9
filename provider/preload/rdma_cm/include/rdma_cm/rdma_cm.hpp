// SPDX-License-Identifier: BSD-2-Clause
// /dev/infiniband/rdma_cm: each descriptor is an event channel, a connection to the emulator. One
// message comes on it for all events that came together, so poll, epoll, O_NONBLOCK, blocking and
// signals work as on any socket. An event is fetched from shared memory (event_pages.hpp), the last
// of several with a receive; if it is not there, the emulator is asked. The answers to what a
// library asks about the ID after an event come with the event
// (verbena/preload/cm_answer_cache.hpp). Commands go over the process's own connections
// (cm_connection.hpp). A command that the event has promised to succeed goes over the channel and
// has no answer.
#pragma once

#include "nodes/node.hpp"

namespace verbena::preload {

extern const NodeClass kRdmaCmClass;

}  // namespace verbena::preload
