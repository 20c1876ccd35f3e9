// SPDX-License-Identifier: BSD-2-Clause
// The lists of `rdma resource show qp`, `cq`, `srq`, `cm_id` and `ctx`: tables of entries, one in
// each message, over as many messages as it takes. What is not known of an object is left out. Of
// memory regions and protection domains only the numbers are known: their lists are empty.
#pragma once

#include <cstddef>

#include "nldev_reply.hpp"
#include "verbena/control/device_info.hpp"
#include "verbena/preload/nldev.hpp"

namespace verbena::preload {

// Keeps a list inside the receive buffer of a socket that nobody reads yet, which holds 97 where
// net.core.rmem_max is as the kernel sets it. What goes beyond is not shown, and the list ends with
// an error.
inline constexpr std::size_t kListDatagramsMost = 80;

bool lists_resources(unsigned op);

// The list of the operation that is replied to, of one device. 0, or ENOBUFS: it is not all.
int put_resource_list(NldevReply& reply, const control::DeviceInfo& device,
                      const Catalogue& catalogue);

}  // namespace verbena::preload
