// SPDX-License-Identifier: BSD-2-Clause
// An engine at its port. The daemon gives it a slot of queue pair numbers, a socket and a
// connection, over which the daemon gives orders and answers questions. When the daemon dies the
// engine fails: its queue pairs flush and nothing new can be made. A context has one to eight of
// these (engines.hpp). What concerns the application as a whole (asynchronous events, XRC, imports,
// multicast) goes to the context by the first of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "verbena/context/daemon_client.hpp"
#include "verbena/context/journal.hpp"
#include "verbena/context/link_orders.hpp"
#include "verbena/context/object_counts.hpp"
#include "verbena/context/port.hpp"
#include "verbena/context/ring_requests.hpp"
#include "verbena/control/peer_messages.hpp"
#include "verbena/control/stats_page.hpp"
#include "verbena/control/status_messages.hpp"
#include "verbena/engine/engine.hpp"

namespace verbena::provider {

class Context;

class AttachedEngine final : private EngineHost, private DaemonListener {
 public:
  // Opens the device. The engine shares the memory of `first`; null means that it is the first
  // itself. Throws VerbRefused.
  AttachedEngine(Context& owner, control::Channel channel, const char* device,
                 AttachedEngine* first);
  ~AttachedEngine();

  // Starts the progress thread. Throws VerbRefused.
  void start();
  // When this returns, no thread drives the engine any more, pending ACKs were sent, and no queue
  // pair is left.
  void stop() noexcept;
  // Returns whether the program has left the engine's descriptors open. If it has closed them, call
  // on_own_descriptors_closed(): no descriptor number is used any more, and leave_behind() takes
  // the place of stop() and the destructor.
  bool has_its_descriptors() const noexcept { return engine_->has_its_descriptors(); }
  void on_own_descriptors_closed() noexcept;
  void leave_behind() noexcept { engine_->leave_behind(); }
  // Sends the pending ACKs when the process ends.
  void part() noexcept;

  Engine& engine() noexcept { return *engine_; }
  DaemonClient& client() noexcept { return client_; }
  Port& port() noexcept { return port_; }
  RingRequests& rings() noexcept { return rings_; }
  // Counts the queue pairs of this engine and, if it is the first, all other objects.
  ObjectCounts& counts() noexcept { return counts_; }

  bool has_failed() const noexcept { return engine_->has_failed(); }
  // Refuses with EIO, explained, once the daemon is gone and in a forked child.
  void check_alive(const char* verb) const;
  // Must be called after a queue pair was destroyed: a fault that was set for it ends.
  void on_destroyed(Qpn number) noexcept;
  // Adds a slot of queue pair numbers. Returns why that failed, or "" on success.
  std::string add_slot();

  // --- around a fork (live_contexts.hpp) ---
  // Between these two calls no other thread is inside the engine.
  void pause() noexcept;
  void resume() noexcept;
  // Called in the child before resume(). The engine is dead there and holds nothing of the
  // parent's.
  void abandon() noexcept;

 private:
  // Defined in attached_engine.cpp.
  EngineOptions options_for(std::uint32_t slot, AttachedEngine* first);

  // EngineHost
  void on_completion_event(void* cq) noexcept override;
  void on_async_event(queue::AsyncEvent event, void* cookie) noexcept override;
  void on_proxy_wanted(const queue::ProxyQp& wanted) noexcept override;
  void on_proxies_released(Qpn receiver) noexcept override;
  void on_occurrence(const queue::Occurrence& what) noexcept override { journal_.note(what); }
  void on_new_peer(const link::Peer& peer) noexcept override { rings_.seek(peer); }
  bool may_get_ring(const link::Peer& peer, TimeNs now) noexcept override {
    return rings_.is_waiting_for(peer, now);
  }
  void ask_about(const IpAddress& address, Qpn qp) noexcept override;
  bool is_own(const IpAddress& address) const noexcept override {
    return port_.source_at(address).has_value();
  }
  int daemon_fd() const noexcept override { return client_.fd(); }
  bool read_daemon() noexcept override { return client_.read_one(); }
  void on_descriptors_closed() noexcept override;

  // DaemonListener; defined in attached_messages.cpp
  void on_message(control::Incoming&& message) override;
  void on_lost(const char* reason) noexcept override;
  void on_port_message(control::Incoming& message);
  void on_question(const control::Incoming& message);
  void find_queue_pair(const control::FindQueuePair& question);
  void end_faults_of_none(const std::vector<control::FaultSpec>& faults);
  void answer_about_queue_pair(const control::QpQuestion& question);
  std::vector<control::WaitingDestroy> waiting_destroys();
  void report_status(const control::StatusRequest& request, std::uint32_t sequence);
  void raise_event(const control::RaiseEvent& request, std::uint32_t sequence);
  Qpn queue_pair_at(std::uint32_t place);
  control::Outcome<control::Done> can_raise_of_queue_pair(Qpn number, control::RaisedEvent event);
  void raise_of_queue_pair(Qpn number, const control::RaiseEvent& request);
  control::Outcome<control::Done> can_raise_of_shared_receive(std::uint32_t number);

  Context& owner_;
  const bool is_first_;
  bool is_parents_ = false;     // this process is a fork of the process that attached it
  control::MappedStats stats_;  // null: nothing is counted or told to the emulator
  DaemonClient client_;
  Journal journal_{client_};
  Port port_{client_};
  RingRequests rings_{client_, port_};
  LinkOrders orders_;
  ObjectCounts counts_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace verbena::provider
