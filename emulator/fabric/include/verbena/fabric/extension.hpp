// SPDX-License-Identifier: BSD-2-Clause
// How another room (connection management) takes part in the daemon without knowing its event loop.
// It gets the clients' messages of its own types and answers through `Clients`. All calls are on
// the daemon's one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "verbena/base/types.hpp"
#include "verbena/control/channel.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/status_messages.hpp"

namespace verbena::fabric {

class Port;

using ClientId = std::uint64_t;  // never used twice

struct ClientInfo {
  control::ClientKind kind = control::ClientKind::kProvider;
  std::uint32_t pid = 0;  // as the kernel says
  std::string comm;
};

class Clients {
 public:
  virtual ~Clients() = default;
  // Returns null if the client has gone.
  virtual const ClientInfo* info(ClientId client) const = 0;
  // Says whether rules of scripted faults know the client's program by this name.
  virtual bool is_called(ClientId client, const std::string& name) const = 0;
  // Sends a whole packet (control::encode). Packets wait while the client does not read; a client
  // with too many waiting packets is disconnected. The descriptors are duplicated.
  virtual void send(ClientId client, std::span<const std::uint8_t> packet,
                    std::span<const int> fds) = 0;
  // Handles what the client has sent up to now, before its turn comes.
  virtual void catch_up(ClientId client) = 0;
};

class Timers {
 public:
  using Id = std::uint64_t;
  virtual ~Timers() = default;
  virtual Id after(TimeNs delay_ns, std::function<void()> then) = 0;
  virtual void cancel(Id timer) = 0;
  // Calls `then` after all handlers that are ready now have run.
  virtual void at_end_of_turn(std::function<void()> then) = 0;
};

// A connection management ID, as `verbena status` shows it. Empty members have no value. `resource`
// is what `rdma` shows, without device and program.
struct CmIdStatus {
  std::uint32_t number = 0;
  ClientId owner = 0;
  std::string state;
  std::string port_space;
  std::string source;
  std::string destination;
  std::string device;
  std::uint32_t qpn = 0;  // 0: the program has not set one
  std::uint32_t backlog = 0;
  std::size_t unread_events = 0;  // for all IDs of its channel
  bool listens_everywhere = false;
  control::CmIdResource resource;
};

class Extension {
 public:
  virtual ~Extension() = default;
  virtual bool takes(control::MessageType type) const = 0;
  virtual void on_client_message(ClientId client, control::Incoming message) = 0;
  virtual void on_client_closed(ClientId client) = 0;
  // Called after a port went up or down.
  virtual void on_port_changed(const Port&) {}
  // Called after the addresses of a port were announced again.
  virtual void on_addresses_changed(const Port&) {}
  // Called after a port's attributes changed: its GIDs, its MTU.
  virtual void on_attributes_changed(const Port&) {}
  // Returns the IDs behind a number, in order, up to a limit.
  virtual std::vector<CmIdStatus> cm_ids_behind(std::uint32_t, std::size_t) { return {}; }
  // Called after the rules of scripted faults changed.
  virtual void on_rules_changed() {}
  // Called before all devices go. Calls `told` once, at once or later, when its clients know.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): an override that calls it later keeps it
  virtual void on_ending(std::function<void()> told) { told(); }
};

}  // namespace verbena::fabric
