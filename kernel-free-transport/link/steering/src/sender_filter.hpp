// SPDX-License-Identifier: BSD-2-Clause
// A SenderRule as instructions of the kernel's packet filter.
#pragma once

#include <linux/filter.h>

#include <vector>

#include "verbena/link/source_ports.hpp"

namespace verbena::link {

constexpr sock_filter statement(int code, std::uint32_t k) {
  return {static_cast<std::uint16_t>(code), 0, 0, k};
}
constexpr sock_filter jump(int code, std::uint32_t k, std::size_t if_true, std::size_t if_false) {
  return {static_cast<std::uint16_t>(code), static_cast<std::uint8_t>(if_true),
          static_cast<std::uint8_t>(if_false), k};
}

// Makes instructions that go on behind their end for what the rule allows, and return 0 for the
// rest. Makes none for a rule that allows all.
std::vector<sock_filter> sender_check(const IpAddress& local, const SenderRule& rule);

}  // namespace verbena::link
