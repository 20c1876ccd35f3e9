// SPDX-License-Identifier: BSD-2-Clause
// /dev/infiniband/uverbsN: a connected control socket on which nothing was sent yet (the provider
// says Hello and OpenDevice on it). It also carries out the few kernel calls that libibverbs core
// makes by itself: completion channels, event channels and GID queries.
#pragma once

#include "nodes/node.hpp"

namespace verbena::preload {

extern const NodeClass kUverbsClass;

}  // namespace verbena::preload
