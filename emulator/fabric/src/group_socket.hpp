// SPDX-License-Identifier: BSD-2-Clause
// Sockets that receive one IP multicast group on the port of RoCEv2. A socket that is bound to a
// unicast address gets no multicast, so each group needs its own.
#pragma once

#include "verbena/base/address.hpp"
#include "verbena/control/error.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::fabric {

// Opens a socket that joins on the interface with `local` and `if_index`.
control::Outcome<control::UniqueFd> open_group_socket(const IpAddress& group,
                                                      const IpAddress& local,
                                                      std::uint32_t if_index);

}  // namespace verbena::fabric
