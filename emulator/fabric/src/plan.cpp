// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/fabric/plan.hpp"

#include <algorithm>
#include <cerrno>
#include <set>

#include "verbena/base/types.hpp"
#include "verbena/control/address_plan.hpp"
#include "verbena/fabric/gid_table.hpp"

namespace verbena::fabric {
namespace {

using control::DeviceInfo;
using control::fail;
using control::Outcome;

// Bits of PortInfo's capability mask (IBTA Vol 1, 14.2.5.6).
constexpr std::uint32_t kCapSystemImageGuid = 1u << 11;
constexpr std::uint32_t kCapExtendedSpeeds = 1u << 14;
constexpr std::uint32_t kCapCommunicationManagement = 1u << 16;
constexpr std::uint32_t kCapClientReregistration = 1u << 25;
constexpr std::uint32_t kCapIpBasedGids = 1u << 26;

// IP, UDP, BTH, the longest extension headers, ICRC: all that an interface's MTU holds besides the
// payload.
constexpr std::uint32_t kHeaderRoom = 96;

std::uint8_t mtu_for(std::uint32_t interface_mtu) {
  std::uint8_t best = static_cast<std::uint8_t>(Mtu::k256);
  for (unsigned m = 1; m <= 5; ++m) {
    if (mtu_bytes(static_cast<Mtu>(m)) + kHeaderRoom <= interface_mtu) {
      best = static_cast<std::uint8_t>(m);
    }
  }
  return best;
}

bool is_in_loopback_net(const IpAddress& address) {
  return address.is_v4() && address.v4_host_order() >> 24 == 127;
}

// No reliable connection reaches such an address. Older kernels broadcast to the first one as well.
bool is_broadcast_of_loopback(const IpAddress& address) {
  return address == IpAddress::v4(0x7f000000) || address == IpAddress::v4(0x7fffffff);
}

Failure<control::Error> too_few(const settings::FabricRange& range, bool counts_up,
                                std::size_t there, std::size_t wanted) {
  const std::string have = std::to_string(there) + " usable address(es)";
  const std::string devices = std::to_string(wanted) + " device(s)";
  if (!counts_up) {
    return fail(EADDRNOTAVAIL, "this host has " + have + " in fabric " + range.to_string() +
                                   " for " + devices + "; `ip address` lists what there is");
  }
  return fail(EADDRNOTAVAIL,
              "fabric " + range.to_string() + " has " + have +
                  (range.has_host_part() ? " from " + range.address.to_string() + " on" : "") +
                  " for " + devices + "; take a larger subnet, or an earlier address");
}

// Returns `count` addresses for the InfiniBand ports, in the order of their LIDs.
Outcome<std::vector<IpAddress>> fabric_addresses(const settings::FabricRange& range,
                                                 const Host& host, std::size_t count) {
  const control::Subnet subnet = range.subnet();
  std::vector<IpAddress> list;
  const bool counts_up = range.has_host_part() || is_in_loopback_net(range.address);
  if (counts_up) {
    const auto first = range.has_host_part() ? control::lid_of(subnet, range.address)
                                             : std::optional<std::uint16_t>(std::uint16_t{1});
    for (std::size_t i = 0; first && i < count; ++i) {
      const std::size_t lid = *first + i;
      const IpAddress address = control::address_of_lid(subnet, static_cast<std::uint16_t>(lid));
      if (control::lid_of(subnet, address) != lid) break;
      list.push_back(address);
    }
  } else {
    for (const Interface& i : host.interfaces) {
      if (control::lid_of(subnet, i.address)) list.push_back(i.address);
    }
    std::sort(list.begin(), list.end(),
              [](const IpAddress& a, const IpAddress& b) { return a.bytes < b.bytes; });
    list.resize(std::min(list.size(), count));
  }
  if (list.size() < count) return too_few(range, counts_up, list.size(), count);
  return list;
}

DeviceInfo common_part(std::string name, std::size_t number, const IpAddress& address,
                       const Interface& on, const Host& host) {
  DeviceInfo d;
  d.name = std::move(name);
  d.uverbs_number = control::kFirstUverbsNumber + static_cast<std::uint32_t>(number);
  d.umad_number = 32 + static_cast<std::uint32_t>(number);
  static_assert(kMaxDevices == 1u << 6);
  d.netlink_index = control::kFirstNetlinkIndex | (host.start & 0xffffffu) << 6 |
                    static_cast<std::uint32_t>(number);
  d.address = address;
  d.if_index = on.index;
  d.if_name = on.name;
  d.node_guid = control::node_guid_of(address);
  d.active_mtu = mtu_for(on.mtu);
  d.node_description = host.name + " " + d.name;
  d.firmware_version = host.version;
  d.pkeys = {0xffff};
  return d;
}

// Includes free entries: programs expect a table with room, as adapters have it.
constexpr std::size_t kInfiniBandGidTableLength = 8;
constexpr std::uint16_t kSubnetManagerLid = 1;

void make_infiniband(DeviceInfo& d, const settings::FabricRange& range) {
  const control::Subnet subnet = range.subnet();
  d.persona = control::Persona::kInfiniBand;
  d.port_guid = control::port_guid_of(d.address, d.persona);
  d.prefix_length = subnet.prefix_length;
  d.subnet = subnet.base;
  // On the loopback interface the whole fabric is this emulator's, unless the user asked for a part
  // of it only.
  d.has_foreign_peers = !is_in_loopback_net(range.address) || range.has_host_part();
  d.lid = control::lid_of(subnet, d.address).value();
  // The whole fabric has one, on any number of hosts: its first address. It need not exist, because
  // no subnet manager is asked.
  d.sm_lid = kSubnetManagerLid;
  d.cap_mask = kCapSystemImageGuid | kCapExtendedSpeeds | kCapCommunicationManagement |
               kCapClientReregistration;
  d.gids.resize(kInfiniBandGidTableLength);
  d.gids[0] = {Gid::link_local(d.port_guid), control::GidType::kInfiniBand, d.if_index, d.if_name};
}

void make_roce(DeviceInfo& d, const Interface& on) {
  d.persona = control::Persona::kRoce;
  d.port_guid = control::port_guid_of(d.address, d.persona);
  d.prefix_length = on.prefix_length;
  d.subnet = settings::FabricRange{d.address, on.prefix_length}.subnet().base;
  d.cap_mask = kCapCommunicationManagement | kCapIpBasedGids;
}

Outcome<std::vector<std::string>> names_for(const settings::Settings& settings) {
  std::vector<std::string> names = settings.devices;
  const std::size_t count =
      std::max<std::size_t>({settings.roce.size(), names.size(), std::size_t{1}});
  if (count > kMaxDevices) {
    return fail(EINVAL, "at most " + std::to_string(kMaxDevices) + " devices");
  }
  std::set<std::string> taken(names.begin(), names.end());
  if (taken.size() != names.size()) return fail(EINVAL, "two devices have the same name");
  for (unsigned n = 0; names.size() < count; ++n) {
    std::string name = "verbena" + std::to_string(n);
    if (taken.insert(name).second) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

Outcome<std::vector<DeviceInfo>> plan_devices(const settings::Settings& settings,
                                              const Host& host) {
  const auto names = names_for(settings);
  if (!names) return Failure<control::Error>{names.error()};
  const std::size_t roce = settings.roce.size();
  const control::Subnet own = control::default_subnet(host.uid);
  const settings::FabricRange range =
      settings.fabric.value_or(settings::FabricRange{own.base, own.prefix_length});
  const auto fabric = fabric_addresses(range, host, names->size() - roce);
  if (!fabric) return Failure<control::Error>{fabric.error()};

  std::vector<DeviceInfo> devices;
  for (std::size_t n = 0; n < names->size(); ++n) {
    const bool is_roce = n < roce;
    const IpAddress address = is_roce ? settings.roce[n] : (*fabric)[n - roce];
    const auto on = interface_of(host.interfaces, address);
    if (is_in_loopback_net(address) && !(on && on->is_up)) {
      return fail(ENETDOWN, "the loopback interface is down, which " + address.to_string() +
                                " belongs to; bring lo up, as root: ip link set lo up");
    }
    if (is_broadcast_of_loopback(address)) {
      return fail(EADDRNOTAVAIL, address.to_string() +
                                     " is a broadcast address of the loopback interface; take "
                                     "another one");
    }
    if (!on) {
      return fail(EADDRNOTAVAIL,
                  address.to_string() + " is not an address of this host; `ip address` lists them");
    }
    for (const DeviceInfo& other : devices) {
      if (other.address == address) {
        return fail(EINVAL, "two devices would have the address " + address.to_string());
      }
    }
    DeviceInfo d = common_part((*names)[n], n, address, *on, host);
    if (is_roce) {
      make_roce(d, *on);
    } else {
      make_infiniband(d, range);
    }
    devices.push_back(std::move(d));
  }
  follow_interfaces(devices, host.interfaces);
  return devices;
}

// Gives an address to the device that was made for it, or else to the first device on its
// interface.
void follow_interfaces(std::vector<DeviceInfo>& devices, const std::vector<Interface>& interfaces) {
  std::vector<IpAddress> taken;
  taken.reserve(devices.size());
  for (const DeviceInfo& d : devices) taken.push_back(d.address);
  for (DeviceInfo& d : devices) {
    if (const auto on = interface_of(interfaces, d.address)) d.active_mtu = mtu_for(on->mtu);
    if (d.persona != control::Persona::kRoce) continue;
    fill_roce_gids(d, interfaces, taken);
    for (const control::GidEntry& row : d.gids) taken.push_back(row.gid.as_ip());
  }
}

}  // namespace verbena::fabric
