// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm_service/fabric_ports.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "verbena/cm_service/neighbours.hpp"
#include "verbena/control/address_plan.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::cm_service {
namespace {

using control::DeviceInfo;

socklen_t fill(sockaddr_storage& out, const IpAddress& ip, std::uint16_t port) {
  out = {};
  if (ip.is_v4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    v4.sin_addr.s_addr = htonl(ip.v4_host_order());
    std::memcpy(&out, &v4, sizeof v4);
    return sizeof v4;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  std::memcpy(&v6.sin6_addr, ip.bytes.data(), 16);
  std::memcpy(&out, &v6, sizeof v6);
  return sizeof v6;
}

bool is_link_local(const IpAddress& address) {
  return address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0) == 0x80;
}

control::UniqueFd datagram_socket(const IpAddress& ip) {
  return control::UniqueFd(::socket(ip.is_v4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

// Returns the index of the entry that carries the port's address, as a RoCE program would pick it.
std::uint8_t gid_index_of(const DeviceInfo& info, const Gid& gid) {
  const auto wanted = info.persona == control::Persona::kRoce ? control::GidType::kRoceV2
                                                              : control::GidType::kInfiniBand;
  for (std::size_t i = 0; i < info.gids.size(); ++i) {
    if (info.gids[i].gid == gid && info.gids[i].type == wanted) return static_cast<std::uint8_t>(i);
  }
  return 0;
}

cm::PortInfo describe(cm::DeviceId number, const DeviceInfo& info, const IpAddress& address) {
  cm::PortInfo port;
  port.device = number;
  port.node_guid = info.node_guid;
  port.ibdev_index = info.netlink_index;
  port.roce = info.persona == control::Persona::kRoce;
  port.address = address;
  port.lid = info.lid;
  port.gid = port.roce ? Gid::from_ip(address) : Gid::link_local(info.port_guid);
  port.gid_index = gid_index_of(info, port.gid);
  if (!info.pkeys.empty()) port.pkey = info.pkeys.front();
  port.mtu = info.active_mtu;
  return port;
}

}  // namespace

FabricPorts::FabricPorts(const fabric::Fabric& fabric) : fabric_(fabric) {
  for (std::size_t i = 0; i < fabric.ports().size(); ++i)
    open(i, fabric.ports()[i]->info().address);
}

// Returns null if the address cannot be opened.
const cm::PortInfo* FabricPorts::open(std::size_t port, const IpAddress& address) const {
  fabric::Port& opened = *fabric_.ports()[port];
  const auto source = opened.open_address(address);
  if (!source) return nullptr;
  const cm::DeviceId number = number_of(port, *source);
  return &(ports_[number] = describe(number, opened.info(), address));
}

void FabricPorts::refresh() {
  for (auto& [number, port] : ports_) {
    port = describe(number, fabric_.ports()[port_of(number)]->info(), port.address);
  }
  if (listens_everywhere_) listen_everywhere();
}

void FabricPorts::listen_everywhere() const {
  listens_everywhere_ = true;
  for (std::size_t i = 0; i < fabric_.ports().size(); ++i) {
    for (const control::GidEntry& row : fabric_.ports()[i]->info().gids) {
      const auto address = control::address_of_gid(row.gid);
      if (address && known_at(*address) == nullptr) open(i, *address);
    }
  }
}

std::vector<cm::DeviceId> FabricPorts::numbers_of(std::size_t port) const {
  std::vector<cm::DeviceId> numbers;
  for (const auto& [number, info] : ports_) {
    if (port_of(number) == port) numbers.push_back(number);
  }
  return numbers;
}

bool FabricPorts::is_active(cm::DeviceId device) const {
  return fabric_.ports()[port_of(device)]->info().port_state == control::PortState::kActive;
}

const cm::PortInfo* FabricPorts::find(cm::DeviceId device) const {
  const auto known = ports_.find(device);
  return known == ports_.end() ? nullptr : &known->second;
}

const cm::PortInfo* FabricPorts::known_at(const IpAddress& address) const {
  for (const auto& [number, port] : ports_) {
    if (port.address == address && fabric_.ports()[port_of(number)]->has_address(address)) {
      return &port;
    }
  }
  return nullptr;
}

const cm::PortInfo* FabricPorts::at(const IpAddress& address) const {
  const cm::PortInfo* port = known_at(address);
  for (std::size_t i = 0; port == nullptr && i < fabric_.ports().size(); ++i) {
    if (fabric_.ports()[i]->has_address(address)) port = open(i, address);
  }
  return port != nullptr && is_active(port->device) ? port : nullptr;
}

const cm::PortInfo* FabricPorts::default_port() const {
  for (const auto& [number, port] : ports_) {
    if (is_active(number)) return &port;
  }
  return nullptr;
}

bool FabricPorts::is_local(const IpAddress& address) const {
  if (address.is_v4() && address.v4_host_order() >> 24 == 127) return true;
  // The address is local if the host would send to it from itself, on any interface. That a socket
  // can be bound to it would prove nothing: groups and broadcasts allow that too.
  return source_for(address) == address;
}

// Takes the first link-local address of a RoCE port: a link-local destination alone does not tell
// the interface.
std::optional<IpAddress> FabricPorts::link_local_source() const {
  for (const auto& port : fabric_.ports()) {
    if (port->info().persona != control::Persona::kRoce) continue;
    for (const control::GidEntry& row : port->info().gids) {
      const auto address = control::address_of_gid(row.gid);
      if (address && is_link_local(*address)) return address;
    }
  }
  return std::nullopt;
}

std::optional<IpAddress> FabricPorts::source_for(const IpAddress& remote) const {
  if (is_link_local(remote)) return link_local_source();
  const control::UniqueFd fd = datagram_socket(remote);
  sockaddr_storage name;
  socklen_t size = fill(name, remote, kRoceUdpPort);
  // Connecting a datagram socket sends nothing: it only asks the routing table.
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), size) != 0) {
    return std::nullopt;
  }
  size = sizeof name;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) return std::nullopt;
  if (name.ss_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &name, sizeof v4);
    return IpAddress::v4(ntohl(v4.sin_addr.s_addr));
  }
  sockaddr_in6 v6;
  std::memcpy(&v6, &name, sizeof v6);
  IpAddress source;
  std::memcpy(source.bytes.data(), &v6.sin6_addr, 16);
  return source;
}

bool FabricPorts::has_answered(const IpAddress& remote) const {
  return cm_service::has_answered(remote);
}

cm::RemotePort FabricPorts::remote(const cm::PortInfo& from, const IpAddress& address) const {
  if (from.roce) return {0, Gid::from_ip(address)};
  const DeviceInfo& info = fabric_.ports()[port_of(from.device)]->info();
  const std::optional<std::uint16_t> lid =
      control::lid_of({info.subnet, info.prefix_length}, address);
  return {lid.value_or(0),
          Gid::link_local(control::port_guid_of(address, control::Persona::kInfiniBand))};
}

std::optional<IpAddress> FabricPorts::address_of(const Gid& gid) const {
  return control::address_of_gid(gid);
}

}  // namespace verbena::cm_service
