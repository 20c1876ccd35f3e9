// /dev/infiniband/rdma_cm: each descriptor is an event channel, a connection to the emulator on
// which one message comes for each event that can be fetched. So poll, epoll, O_NONBLOCK, blocking
// and signals work as on any socket; fetching is a receive and then a question. Commands go over
// connections of the process's own (cm_connection.hpp).
#pragma once

#include "node.hpp"

namespace verbena::preload {

extern const NodeClass kRdmaCmClass;

}  // namespace verbena::preload
