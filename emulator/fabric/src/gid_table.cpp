// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/fabric/gid_table.hpp"

#include <algorithm>
#include <optional>
#include <span>

namespace verbena::fabric {
namespace {

using control::DeviceInfo;
using control::GidType;

constexpr std::size_t kRowsOfOne = 2;
constexpr std::size_t kFirstFurther = 2 * kRowsOfOne;

bool is_link_local(const IpAddress& address) {
  return address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0) == 0x80;
}

// Returns the other addresses of the device's interface, in the order of their rows.
std::vector<IpAddress> further_addresses(const DeviceInfo& device,
                                         const std::vector<Interface>& interfaces,
                                         const std::vector<IpAddress>& taken) {
  std::vector<IpAddress> found;
  for (const bool v4 : {true, false}) {
    for (const Interface& i : interfaces) {
      const bool is_candidate = i.index == device.if_index && !i.loopback &&
                                i.address.is_v4() == v4 && !(i.address == device.address);
      if (is_candidate && std::ranges::find(taken, i.address) == taken.end()) {
        found.push_back(i.address);
      }
    }
  }
  return found;
}

void write_rows(DeviceInfo& device, std::size_t first, const Gid& gid) {
  device.gids[first] = {gid, GidType::kRoceV1, device.if_index, device.if_name};
  device.gids[first + 1] = {gid, GidType::kRoceV2, device.if_index, device.if_name};
}

void free_rows(DeviceInfo& device, std::size_t first) {
  device.gids[first] = {Gid{}, GidType::kRoceV1, 0, ""};
  device.gids[first + 1] = {Gid{}, GidType::kRoceV2, 0, ""};
}

}  // namespace

void fill_roce_gids(DeviceInfo& device, const std::vector<Interface>& interfaces,
                    const std::vector<IpAddress>& taken) {
  device.gids.resize(kRoceGidTableLength);
  const std::optional<Interface> own = interface_of(interfaces, device.address);
  if (own) {
    device.if_index = own->index;
    device.if_name = own->name;
  }
  std::vector<IpAddress> further = further_addresses(device, interfaces, taken);
  Gid default_gid = own ? Gid::from_ip(device.address) : Gid{};
  if (device.address.is_v4()) {
    if (own) default_gid = Gid::link_local(device.port_guid);
  } else if (const auto local = std::ranges::find_if(further, is_link_local);
             local != further.end() && !is_link_local(device.address)) {
    default_gid = Gid::from_ip(*local);
    further.erase(local);
  }
  const Gid own_gid = own ? Gid::from_ip(device.address) : Gid{};
  std::size_t row = 0;
  for (const Gid& gid : {default_gid, own_gid}) {
    gid.is_zero() ? free_rows(device, row) : write_rows(device, row, gid);
    row += kRowsOfOne;
  }
  for (row = kFirstFurther; row < kRoceGidTableLength; row += kRowsOfOne) {
    const auto still = std::ranges::find(further, device.gids[row].gid.as_ip());
    if (still == further.end()) {
      free_rows(device, row);
    } else {
      write_rows(device, row, device.gids[row].gid);
      further.erase(still);
    }
  }
  auto next = further.begin();
  for (row = kFirstFurther; row < kRoceGidTableLength && next != further.end(); row += kRowsOfOne) {
    if (device.gids[row].gid.is_zero()) write_rows(device, row, Gid::from_ip(*next++));
  }
}

}  // namespace verbena::fabric
