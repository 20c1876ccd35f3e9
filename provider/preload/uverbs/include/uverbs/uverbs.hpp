// SPDX-License-Identifier: BSD-2-Clause
// /dev/infiniband/uverbsN: a connected control socket on which nothing was sent yet (the provider
// says Hello and OpenDevice on it), and the few kernel calls that libibverbs core makes on it by
// itself: completion channels, event channels and GID queries.
#pragma once

#include "nodes/node.hpp"

namespace verbena::preload {

extern const NodeClass kUverbsClass;

}  // namespace verbena::preload
