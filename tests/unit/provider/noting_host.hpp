// SPDX-License-Identifier: BSD-2-Clause
// What tests of engines have in place of a daemon and of verbs: addresses of this process, and a
// host that notes what it is told and asked.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "verbena/engine/engine.hpp"

namespace verbena::provider {

inline IpAddress own_address(std::uint32_t host) {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  return IpAddress::v4(0x7f800000u | (pid & 0x1fffffu) << 2 | host);
}

struct NotingHost final : EngineHost {
  void on_completion_event(void* cq) noexcept override { completion_event = cq; }
  void on_async_event(queue::AsyncEvent, void*) noexcept override {}
  void on_occurrence(const queue::Occurrence&) noexcept override {}
  void on_proxy_wanted(const queue::ProxyQp&) noexcept override {}
  void on_proxies_released(Qpn) noexcept override {}
  void on_new_peer(const link::Peer& peer) noexcept override {
    new_peer = peer;
    ++new_peers;
  }
  bool may_get_ring(const link::Peer&, TimeNs) noexcept override { return awaits_ring; }
  void ask_about(const IpAddress&, Qpn) noexcept override { ++questions; }
  bool is_own(const IpAddress&) const noexcept override { return false; }
  int daemon_fd() const noexcept override { return -1; }
  bool read_daemon() noexcept override { return true; }
  void on_descriptors_closed() noexcept override {}

  std::atomic<void*> completion_event{nullptr};
  link::Peer new_peer;
  int new_peers = 0;
  bool awaits_ring = false;
  int questions = 0;
};

}  // namespace verbena::provider
