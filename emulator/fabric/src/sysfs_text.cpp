// SPDX-License-Identifier: BSD-2-Clause
#include "sysfs_text.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace verbena::fabric {
namespace {

using control::DeviceInfo;
using control::PortState;

std::string state_text(PortState state) {
  switch (state) {
    case PortState::kDown:
      return "1: DOWN\n";
    case PortState::kInit:
      return "2: INIT\n";
    case PortState::kArmed:
      return "3: ARMED\n";
    case PortState::kActive:
      return "4: ACTIVE\n";
  }
  return "0: NOP\n";
}

// Returns the mask of all CPUs as the kernel prints it: groups of 32 bits, the highest first.
std::string cpu_mask_text() {
  const long cpus = std::max(1L, ::sysconf(_SC_NPROCESSORS_CONF));
  char head[16];
  const long odd = cpus % 32;
  std::snprintf(head, sizeof head, "%08x", odd == 0 ? 0xffffffffu : (1u << odd) - 1);
  std::string text = head;
  for (long i = 1; i < (cpus + 31) / 32; ++i) text += ",ffffffff";
  return text + "\n";
}

}  // namespace

std::string hex_text(std::uint64_t value, int digits) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%0*llx\n", digits, static_cast<unsigned long long>(value));
  return text;
}

std::string guid_text(std::uint64_t guid) {
  char text[24];
  std::snprintf(text, sizeof text, "%04x:%04x:%04x:%04x", static_cast<unsigned>(guid >> 48),
                static_cast<unsigned>(guid >> 32 & 0xffff),
                static_cast<unsigned>(guid >> 16 & 0xffff), static_cast<unsigned>(guid & 0xffff));
  return text;
}

std::string gid_type_text(control::GidType type) {
  return type == control::GidType::kRoceV2 ? "RoCE v2\n" : "IB/RoCE v1\n";
}

NamedTexts device_attributes(const DeviceInfo& d) {
  return {
      {"node_type", "1: CA\n"},
      {"node_guid", guid_text(d.node_guid) + "\n"},
      {"sys_image_guid", guid_text(d.node_guid) + "\n"},
      {"fw_ver", d.firmware_version + "\n"},
      {"hw_rev", "1\n"},
      {"hca_type", "Verbena\n"},
      {"board_id", "VERBENA0000\n"},
      {"node_desc", d.node_description + "\n"},
      {"device/numa_node", "-1\n"},
      {"device/local_cpus", cpu_mask_text()},
      {"device/local_cpulist",
       "0-" + std::to_string(std::max(1L, ::sysconf(_SC_NPROCESSORS_CONF)) - 1) + "\n"},
      {"device/vendor", "0x5652\n"},
      {"device/device", "0x0001\n"},
  };
}

NamedTexts port_attributes(const DeviceInfo& d) {
  const bool is_up = d.port_state == PortState::kActive;
  const bool is_roce = d.persona == control::Persona::kRoce;
  return {
      {"state", state_text(d.port_state)},
      {"phys_state", is_up ? "5: LinkUp\n" : "3: Disabled\n"},
      {"rate", "100 Gb/sec (4X EDR)\n"},
      {"link_layer", is_roce ? "Ethernet\n" : "InfiniBand\n"},
      {"lid", hex_text(d.lid, 1)},
      {"lid_mask_count", "0\n"},
      {"sm_lid", hex_text(d.sm_lid, 1)},
      {"sm_sl", "0\n"},
      {"cap_mask", hex_text(d.cap_mask, 8)},
  };
}

NamedTexts gid_attributes(const DeviceInfo& d, std::size_t row) {
  const std::string index = std::to_string(row);
  return {{"gids/" + index, d.gids[row].gid.to_string() + "\n"},
          {"gid_attrs/types/" + index, gid_type_text(d.gids[row].type)}};
}

std::vector<std::pair<std::string, std::uint64_t>> counter_files(const Totals& t) {
  std::vector<std::pair<std::string, std::uint64_t>> files{
      // IBTA counts data in units of four octets.
      {"counters/port_xmit_data", t[PortCounter::kXmitBytes] / 4},
      {"counters/port_rcv_data", t[PortCounter::kRcvBytes] / 4},
      {"counters/port_xmit_packets", t[PortCounter::kXmitPackets]},
      {"counters/port_rcv_packets", t[PortCounter::kRcvPackets]},
      {"counters/unicast_xmit_packets", t[PortCounter::kUnicastXmitPackets]},
      {"counters/unicast_rcv_packets", t[PortCounter::kUnicastRcvPackets]},
      {"counters/multicast_xmit_packets", t[PortCounter::kMulticastXmitPackets]},
      {"counters/multicast_rcv_packets", t[PortCounter::kMulticastRcvPackets]},
      {"counters/port_rcv_errors", t.malformed()},
      {"counters/port_xmit_discards", t[PortCounter::kSendFailures]},
      {"counters/link_downed", t.link_downed},
  };
  for (std::size_t i = 0; i < kPortCounters; ++i) {
    files.emplace_back("hw_counters/" + std::string(kPortCounterNames[i]), t.port[i]);
  }
  for (std::size_t i = 0; i < kDropReasons; ++i) {
    files.emplace_back("hw_counters/rx_drop_" + std::string(kDropReasonNames[i]), t.drops[i]);
  }
  return files;
}

}  // namespace verbena::fabric
