// SPDX-License-Identifier: BSD-2-Clause
// How status and events name what messages carry as numbers, and write JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace verbena::daemon {

std::string hex(std::uint64_t value, int digits);
// Of enum ibv_qp_type, ibv_qp_state and ibv_wc_status.
std::string qp_type_name(std::uint8_t type);
std::string qp_state_name(std::uint8_t state);
std::string completion_status_name(std::uint8_t status);
// In one line. A program may call itself anything: bytes that are no UTF-8 are replaced.
std::string text_of(const nlohmann::ordered_json& json);

}  // namespace verbena::daemon
