// SPDX-License-Identifier: BSD-2-Clause
// Names what messages carry as numbers, for status and events, and writes JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace verbena::daemon {

std::string hex(std::uint64_t value, int digits);
// Return the names in enum ibv_qp_type, ibv_qp_state and ibv_wc_status.
std::string qp_type_name(std::uint8_t type);
std::string qp_state_name(std::uint8_t state);
std::string completion_status_name(std::uint8_t status);
// Writes JSON in one line. Replaces bytes that are not UTF-8, because a program may have any name.
std::string text_of(const nlohmann::ordered_json& json);

}  // namespace verbena::daemon
