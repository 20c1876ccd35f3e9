// SPDX-License-Identifier: BSD-2-Clause
// A small world for the CM: hosts with one emulated device each; a network between their QP1s that
// may lose, repeat, delay or change datagrams; and virtual time. Everything follows from the seed,
// and nothing here sleeps.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "verbena/base/random.hpp"
#include "verbena/cm/rdma_cm.hpp"
#include "verbena/cm/ucma.hpp"

namespace verbena::cm::sim {

inline constexpr TimeNs kMicrosecond = 1'000;
inline constexpr TimeNs kMillisecond = 1'000'000;
inline constexpr TimeNs kSecond = 1'000'000'000;

// One device per host. 127.0.0.1, ::1 and `extra` are local addresses that belong to no device.
class HostPorts : public Ports {
 public:
  HostPorts(std::uint32_t address, bool roce) {
    port_.device = 1;
    port_.node_guid = 0x0256520100000000ull | address;
    port_.ibdev_index = 0x40000000;
    port_.roce = roce;
    port_.address = IpAddress::v4(address);
    port_.lid = roce ? 0 : static_cast<std::uint16_t>(address & 0xff);
    port_.gid = remote(port_, port_.address).gid;
  }
  const PortInfo* find(DeviceId device) const override {
    return present && device == 1 ? &port_ : nullptr;
  }
  bool is_active(DeviceId device) const override { return up && find(device) != nullptr; }
  const PortInfo* at(const IpAddress& address) const override {
    return present && up && address == port_.address ? &port_ : nullptr;
  }
  const PortInfo* default_port() const override { return present && up ? &port_ : nullptr; }
  bool is_local(const IpAddress& address) const override {
    return address == port_.address || address == extra || address == IpAddress::parse("::1") ||
           (address.is_v4() && address.v4_host_order() >> 24 == 127);
  }
  std::optional<IpAddress> source_for(const IpAddress& remote) const override {
    if (!remote.is_v4()) return std::nullopt;
    return remote.v4_host_order() >> 24 == 10 ? port_.address : *extra;
  }
  bool has_answered(const IpAddress&) const override {
    ++neighbours_asked;
    return neighbours_answer;
  }
  RemotePort remote(const PortInfo& from, const IpAddress& address) const override {
    if (from.roce) return {0, Gid::from_ip(address)};
    return {static_cast<std::uint16_t>(address.v4_host_order() & 0xff),
            Gid::link_local(0x0256520000000000ull | address.v4_host_order())};
  }
  std::optional<IpAddress> address_of(const Gid& gid) const override {
    if (port_.roce) return gid.as_ip();
    return IpAddress::v4(static_cast<std::uint32_t>(gid.interface_id()));
  }

  const IpAddress& default_port_address() const { return port_.address; }

  bool present = true;
  bool up = true;
  bool neighbours_answer = true;
  mutable unsigned neighbours_asked = 0;  // how often
  std::optional<IpAddress> extra = IpAddress::parse("192.168.7.7");

 private:
  PortInfo port_;
};

struct Host {
  Host(std::uint32_t address, bool roce, std::uint64_t seed)
      : ports(address, roce), cm(ports, seed), ucma(cm) {}
  HostPorts ports;
  RdmaCm cm;
  Ucma ucma;
  bool dead = false;  // its datagrams are lost, and no datagram reaches it
};

struct Flight {
  IpAddress from;
  OutMad mad;
  TimeNs delay = 20 * kMicrosecond;
};

class World {
 public:
  // Returns the copies of a datagram that arrive, each with its delay.
  using Network = std::function<std::vector<Flight>(const Flight&)>;

  explicit World(std::uint64_t seed, bool roce = false) : random(seed), roce_(roce) {}

  Host& add_host() {
    const std::uint32_t address = 0x0a000001 + static_cast<std::uint32_t>(hosts.size());
    hosts.push_back(std::make_unique<Host>(address, roce_, random.next()));
    return *hosts.back();
  }

  // Puts on the wire what the hosts have to send.
  void collect() {
    for (auto& host : hosts) {
      for (OutMad& mad : host->cm.take_mads()) {
        if (host->dead) continue;
        const Flight flight{host->ports.default_port_address(), mad};
        ++sent;
        if (!network) {
          launch(flight);
          continue;
        }
        for (const Flight& copy : network(flight)) launch(copy);
      }
    }
  }

  // Goes on to the next datagram or deadline. False: nothing is due before `until`.
  bool step(TimeNs until = kNever) {
    collect();
    TimeNs next = in_flight_.empty() ? kNever : in_flight_.begin()->first;
    for (auto& host : hosts) next = std::min(next, host->cm.next_deadline());
    if (next == kNever || next > until) return false;
    now = std::max(now, next);
    while (!in_flight_.empty() && in_flight_.begin()->first <= now) {
      const Flight flight = in_flight_.begin()->second;
      in_flight_.erase(in_flight_.begin());
      for (auto& host : hosts) {
        if (!host->dead && host->ports.default_port_address() == flight.mad.destination) {
          host->cm.handle_mad(now, 1, flight.from, flight.mad.bytes);
        }
      }
    }
    for (auto& host : hosts) host->cm.handle_timeout(now);
    return true;
  }

  bool is_consistent() const {
    for (const auto& host : hosts) {
      if (!host->cm.is_consistent()) return false;
    }
    return true;
  }

  TimeNs now = kSecond;
  Random random;
  Network network;
  std::uint64_t sent = 0;
  std::vector<std::unique_ptr<Host>> hosts;

 private:
  void launch(const Flight& flight) { in_flight_.emplace(now + flight.delay, flight); }

  bool roce_;
  std::multimap<TimeNs, Flight> in_flight_;
};

}  // namespace verbena::cm::sim
