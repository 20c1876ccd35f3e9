// SPDX-License-Identifier: BSD-2-Clause
// Which function of librdmacm a program has called, by the command that it writes to
// /dev/infiniband/rdma_cm. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace verbena::control {

// Empty: none that can be named, or librdmacm asks on its own account. (So it does with IDs of
// RDMA_PS_IB and addresses of AF_IB, whoever has them.)
std::string_view function_of_cm_command(std::span<const std::uint8_t> command);

}  // namespace verbena::control
