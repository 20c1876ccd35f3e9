// SPDX-License-Identifier: BSD-2-Clause
// Says who holds a UDP port, in words for an error message.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/address.hpp"

namespace verbena::link {

// Returns "a program of user 1000", "the kernel (...)", or "another program" if /proc does not
// tell.
std::string port_holder(const IpAddress& local, std::uint16_t port);

}  // namespace verbena::link
