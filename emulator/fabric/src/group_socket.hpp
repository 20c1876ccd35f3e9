// SPDX-License-Identifier: BSD-2-Clause
// A socket that receives one IP multicast group on the port of RoCEv2. Sockets bound to a unicast
// address get no multicast at all, so each group needs one.
#pragma once

#include "verbena/base/address.hpp"
#include "verbena/control/error.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::fabric {

// `local` and `if_index` name the interface on which to join.
control::Outcome<control::UniqueFd> open_group_socket(const IpAddress& group,
                                                      const IpAddress& local,
                                                      std::uint32_t if_index);

}  // namespace verbena::fabric
