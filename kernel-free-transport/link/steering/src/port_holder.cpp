// SPDX-License-Identifier: BSD-2-Clause
#include "port_holder.hpp"

#include <arpa/inet.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

namespace verbena::link {
namespace {

// /proc/net/udp prints each 32-bit word of an address as the machine holds it.
IpAddress parse_proc_address(const std::string& hex) {
  if (hex.size() == 8) {
    return IpAddress::v4(ntohl(static_cast<std::uint32_t>(std::stoul(hex, nullptr, 16))));
  }
  IpAddress ip;
  for (std::size_t word = 0; word < 4 && hex.size() == 32; ++word) {
    const auto value = static_cast<std::uint32_t>(std::stoul(hex.substr(word * 8, 8), nullptr, 16));
    std::memcpy(ip.bytes.data() + word * 4, &value, sizeof value);
  }
  return ip;
}

std::string describe(unsigned long user, unsigned long inode) {
  if (inode == 0) return "the kernel (its own Soft-RoCE device, if rdma_rxe is loaded)";
  return "a program of user " + std::to_string(user);
}

// A line has the form "sl local:port remote:port st tx:rx tr:when retransmits uid timeout inode
// ...".
std::string find_in(const char* table, const IpAddress& local, std::uint16_t port) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string number, here, there, state, queues, timer, retransmits;
    unsigned long user = 0, timeout = 0, inode = 0;
    fields >> number >> here >> there >> state >> queues >> timer >> retransmits >> user >>
        timeout >> inode;
    const std::size_t colon = here.find(':');
    if (!fields || colon == std::string::npos) continue;
    if (std::stoul(here.substr(colon + 1), nullptr, 16) != port) continue;
    const IpAddress bound = parse_proc_address(here.substr(0, colon));
    if (bound == local || bound.is_unspecified()) return describe(user, inode);
  }
  return {};
}

}  // namespace

std::string port_holder(const IpAddress& local, std::uint16_t port) {
  try {
    for (const char* table : {"/proc/net/udp", "/proc/net/udp6"}) {
      std::string holder = find_in(table, local, port);
      if (!holder.empty()) return holder;
    }
  } catch (const std::exception&) {
    // A line that does not parse only costs the detail.
  }
  return "another program";
}

}  // namespace verbena::link
