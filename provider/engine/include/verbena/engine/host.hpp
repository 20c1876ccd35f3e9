// SPDX-License-Identifier: BSD-2-Clause
// What an engine asks of whom it belongs to: to tell the application, to send to the daemon, and to
// read what the daemon says. Called on any thread, with locks of the engine held, but for
// read_daemon(): nothing here waits, or calls what takes the engine's locks.
#pragma once

#include "verbena/base/address.hpp"
#include "verbena/base/types.hpp"
#include "verbena/link/peer_link.hpp"
#include "verbena/queue/events.hpp"

namespace verbena::provider {

class EngineHost {
 public:
  // As queue::EventSink has them.
  virtual void on_completion_event(void* cq) noexcept = 0;
  virtual void on_async_event(queue::AsyncEvent event, void* cookie) noexcept = 0;
  virtual void on_proxy_wanted(const queue::ProxyQp& wanted) noexcept = 0;
  virtual void on_proxies_released(Qpn receiver) noexcept = 0;
  virtual void on_occurrence(const queue::Occurrence& what) noexcept = 0;
  // A queue pair posts to this peer for the first time: a shared ring would be of use.
  virtual void on_new_peer(const link::Peer& peer) noexcept = 0;
  // The peer's queue pair does not answer: what has become of it (Engine::reports())?
  virtual void ask_about(const IpAddress& address, Qpn qp) noexcept = 0;
  // Whether the port has this address.
  virtual bool is_own(const IpAddress& address) const noexcept = 0;

  // For the progress thread: what it sleeps on (-1: nothing any more), and reads then. False: it
  // cannot be read now, look again a little later.
  virtual int daemon_fd() const noexcept = 0;
  virtual bool read_daemon() noexcept = 0;

 protected:
  ~EngineHost() = default;
};

}  // namespace verbena::provider
