// SPDX-License-Identifier: BSD-2-Clause
// What an engine knows of its port: the attributes and their changes, the addresses, and where its
// GIDs lead. Owned by the attached engine; any thread, messages under the client's lock.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "verbena/base/lock.hpp"
#include "verbena/context/daemon_client.hpp"
#include "verbena/control/event_messages.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/engine/engine.hpp"
#include "verbena/qp/attributes.hpp"

namespace verbena::provider {

class Port {
 public:
  explicit Port(DaemonClient& client) : client_(client) {}

  // Sets the attributes of the opened port, and then the engine that receives there.
  void open(control::DeviceInfo info) { info_ = std::move(info); }
  void attach(Engine& engine) { engine_ = &engine; }

  control::DeviceInfo info() const;
  // Returns the options of all sockets, at any address. Called under the client's lock, like
  // everything that handles messages.
  link::UdpOptions udp_options() const;

  // Returns where an address vector leads, and from which of the port's addresses. The daemon is
  // asked for an address that was not used before, unless the caller is handling a message of the
  // daemon.
  enum class MayAsk : bool { kNo, kYes };
  qp::PathAttributes path_to(const char* verb, const ibv_ah_attr& ah, MayAsk may_ask);
  // Called before a UD queue pair receives: datagrams may be sent to any of the port's addresses.
  void open_all_addresses();
  // Returns the source by which packets are sent from this address; 0 is the port's own address.
  std::optional<std::uint8_t> source_at(const IpAddress& own) const noexcept;

  // Calls `tell_program` for each asynchronous event.
  void on_event(const control::PortEvent& event,
                const std::function<void(queue::AsyncEvent)>& tell_program);
  void on_address_opened(const IpAddress& own, std::span<control::UniqueFd> fds);

 private:
  std::vector<IpAddress> addresses() const;
  std::optional<std::uint8_t> open_address(const IpAddress& own, std::string& why_not);
  std::optional<std::uint8_t> adopt_address(const IpAddress& own, std::span<control::UniqueFd> fds);

  DaemonClient& client_;
  Engine* engine_ = nullptr;
  mutable std::mutex lock_;
  control::DeviceInfo info_;
  std::vector<IpAddress> sources_;             // further addresses in use, from source 1 on
  Published<bool> receives_datagrams_{false};  // at all addresses, present and future
};

}  // namespace verbena::provider
