// SPDX-License-Identifier: BSD-2-Clause
// The lists of `rdma resource show qp`, `cq`, `srq`, `cm_id` and `ctx`: one table of entries in
// each message, over as many messages as needed. Unknown attributes of an object are left out.
// Memory regions and protection domains are only counted, so their lists are empty.
#pragma once

#include <cstddef>

#include "nldev_reply.hpp"
#include "verbena/control/device_info.hpp"
#include "verbena/preload/nldev.hpp"

namespace verbena::preload {

// Keeps a list inside the receive buffer of a socket that is not read yet. The buffer holds 97
// datagrams at the kernel's default of net.core.rmem_max. Entries beyond the limit are left out,
// and the list ends with an error.
inline constexpr std::size_t kListDatagramsMost = 80;

bool lists_resources(unsigned op);

// Puts the list that the request asks for, of one device. Returns 0, or ENOBUFS if it is
// incomplete.
int put_resource_list(NldevReply& reply, const control::DeviceInfo& device,
                      const Catalogue& catalogue);

}  // namespace verbena::preload
