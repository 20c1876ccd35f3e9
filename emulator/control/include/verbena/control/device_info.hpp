// SPDX-License-Identifier: BSD-2-Clause
// What the daemon tells about one device: everything that discovery, sysfs, netlink and the port's
// attributes need. It is a value; each side keeps its copy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verbena/base/address.hpp"

// Lists the fields of a message or of a part of one, in wire order. `a` is the encoder or the
// decoder, `m` the struct.
#define VERBENA_FIELDS                       \
  template <typename Archive, typename Self> \
  static void fields([[maybe_unused]] Archive& a, [[maybe_unused]] Self& m)

namespace verbena::control {

// How a port presents itself: with LIDs and an InfiniBand link layer, or as RoCEv2 on Ethernet.
enum class Persona : std::uint8_t { kInfiniBand = 0, kRoce = 1 };

// The numbers of IBTA Vol 1, PortInfo, which ibv_port_state and sysfs use as well.
enum class PortState : std::uint8_t { kDown = 1, kInit = 2, kArmed = 3, kActive = 4 };

enum class GidType : std::uint8_t { kInfiniBand = 0, kRoceV1 = 1, kRoceV2 = 2 };

struct GidEntry {
  Gid gid;
  GidType type = GidType::kInfiniBand;
  std::uint32_t if_index = 0;  // 0: no network interface
  std::string if_name;
  bool operator==(const GidEntry&) const = default;
  VERBENA_FIELDS { a(m.gid, m.type, m.if_index, m.if_name); }
};

inline constexpr std::uint32_t kFirstUverbsNumber = 192;
inline constexpr std::uint32_t kFirstNetlinkIndex = 0x40000000;
inline constexpr std::uint32_t kUverbsMajor = 231;
inline constexpr std::uint32_t kUverbsMinorBase = 192;  // minor = base + uverbs number
inline constexpr std::uint32_t kUmadMajor = 231;
inline constexpr std::uint32_t kUverbsAbiVersion = 6;  // version of the class
inline constexpr std::uint32_t kDeviceAbiVersion = 1;  // version of a device, as the plugin has it
inline constexpr std::uint8_t kPortNumber = 1;         // every device has this one port

struct DeviceInfo {
  std::string name;                 // verbena0
  std::uint32_t uverbs_number = 0;  // the N of /dev/infiniband/uverbsN
  std::uint32_t umad_number = 0;    // the N of /dev/infiniband/umadN
  std::uint32_t netlink_index = 0;  // also the ibdev_index of rdma_cm
  Persona persona = Persona::kInfiniBand;
  std::uint64_t node_guid = 0;  // host order, also the system image GUID
  std::uint64_t port_guid = 0;
  IpAddress address;
  std::uint8_t prefix_length = 0;  // the subnet's, in bits of the address's own family
  IpAddress subnet;                // address with the host part cleared
  // False if every peer is a device of this emulator. True if other emulators' devices or adapters
  // may be peers.
  bool has_foreign_peers = true;
  // The first of the UDP ports from which this emulator's devices send (link/source_ports.hpp).
  std::uint16_t first_source_port = 0;
  std::uint32_t if_index = 0;  // index of the interface that has the address
  std::string if_name;
  std::uint16_t lid = 0;  // 0 on RoCE
  std::uint16_t sm_lid = 0;
  std::uint32_t cap_mask = 0;
  std::uint8_t max_mtu = 5;  // encoded as in verbena::Mtu
  std::uint8_t active_mtu = 5;
  std::uint8_t active_width = 2;   // 4X
  std::uint8_t active_speed = 32;  // EDR, 25.78125 Gb/s a lane
  PortState port_state = PortState::kActive;
  std::string node_description;
  std::string firmware_version;
  std::vector<GidEntry> gids;  // index = position; a row of zeros is free
  std::vector<std::uint16_t> pkeys;

  bool operator==(const DeviceInfo&) const = default;
  VERBENA_FIELDS {
    a(m.name, m.uverbs_number, m.umad_number, m.netlink_index, m.persona, m.node_guid, m.port_guid,
      m.address, m.prefix_length, m.subnet, m.has_foreign_peers, m.first_source_port, m.if_index,
      m.if_name, m.lid, m.sm_lid, m.cap_mask, m.max_mtu, m.active_mtu, m.active_width,
      m.active_speed, m.port_state, m.node_description, m.firmware_version, m.gids, m.pkeys);
  }
};

}  // namespace verbena::control
