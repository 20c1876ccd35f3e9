// SPDX-License-Identifier: BSD-2-Clause
// Reads and writes quantities as people write them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "verbena/control/error.hpp"

namespace verbena::cli {

// Reads "1%", "0.5%", "200ppm", or a share from 0 to 1. Returns parts per million.
control::Outcome<std::uint32_t> parse_share(std::string_view text);
// Reads "10us", "5ms", "1s", "100ns".
control::Outcome<std::uint64_t> parse_duration_ns(std::string_view text);
// Reads "100MB", "1.5GB", "800kB" a second, or bits: "10Mbit", "1Gbit". Returns bytes.
control::Outcome<std::uint64_t> parse_rate(std::string_view text);
// Reads "17", "0x4001".
control::Outcome<std::uint32_t> parse_qpn(std::string_view text);
// Reads "4711".
control::Outcome<std::uint64_t> parse_seed(std::string_view text);
// Reads "0x80200001".
control::Outcome<std::uint32_t> parse_srq(std::string_view text);

std::string share_text(std::uint32_t parts_per_million);
std::string duration_text(std::uint64_t ns);
std::string bytes_text(std::uint64_t bytes);

}  // namespace verbena::cli
