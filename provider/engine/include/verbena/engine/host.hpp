// SPDX-License-Identifier: BSD-2-Clause
// The owner of an engine. The engine asks it to tell the application, to send to the daemon, and to
// read the daemon's messages. Except for read_daemon(), these are called on any thread with locks
// of the engine held, so they must neither wait nor take the engine's locks.
#pragma once

#include "verbena/base/address.hpp"
#include "verbena/base/types.hpp"
#include "verbena/link/peer_link.hpp"
#include "verbena/queue/events.hpp"

namespace verbena::provider {

class EngineHost {
 public:
  // See queue::EventSink.
  virtual void on_completion_event(void* cq) noexcept = 0;
  virtual void on_async_event(queue::AsyncEvent event, void* cookie) noexcept = 0;
  virtual void on_proxy_wanted(const queue::ProxyQp& wanted) noexcept = 0;
  virtual void on_proxies_released(Qpn receiver) noexcept = 0;
  virtual void on_occurrence(const queue::Occurrence& what) noexcept = 0;
  // A queue pair posts to this peer for the first time, so a shared ring would be of use.
  virtual void on_new_peer(const link::Peer& peer) noexcept = 0;
  // Returns whether a ring to this peer was asked for a short while ago and nobody has answered
  // yet.
  virtual bool may_get_ring(const link::Peer& peer, TimeNs now) noexcept = 0;
  // The peer's queue pair does not answer. Asks what has become of it; see Engine::reports().
  virtual void ask_about(const IpAddress& address, Qpn qp) noexcept = 0;
  // Returns whether the port has this address.
  virtual bool is_own(const IpAddress& address) const noexcept = 0;

  // The descriptor that the progress thread sleeps on (-1: none any more), and how it reads from
  // it. read_daemon() returns false if it cannot read now; try again a little later.
  virtual int daemon_fd() const noexcept = 0;
  virtual bool read_daemon() noexcept = 0;
  // The program has closed the engine's descriptors. The host calls cut_off() and ends the device.
  virtual void on_descriptors_closed() noexcept = 0;

 protected:
  ~EngineHost() = default;
};

}  // namespace verbena::provider
