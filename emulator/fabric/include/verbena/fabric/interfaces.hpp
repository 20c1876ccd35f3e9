// SPDX-License-Identifier: BSD-2-Clause
// The addresses of this host and their interfaces. A snapshot, a plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verbena/base/address.hpp"
#include "verbena/control/error.hpp"

namespace verbena::fabric {

struct Interface {
  IpAddress address;
  std::uint8_t prefix_length = 0;  // in the address's own family
  std::string name;
  std::uint32_t index = 0;
  std::uint32_t mtu = 0;
  bool loopback = false;
  bool is_up = true;
  bool operator==(const Interface&) const = default;
};

// Fails if no descriptor is left for the question.
control::Outcome<std::vector<Interface>> list_interfaces();

// Returns the interface of an address. All of 127.0.0.0/8 belongs to the loopback interface.
std::optional<Interface> interface_of(const std::vector<Interface>& all, const IpAddress& address);

}  // namespace verbena::fabric
