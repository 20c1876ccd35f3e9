// SPDX-License-Identifier: BSD-2-Clause
// The daemon's centre: clients and their contexts come and go, slots are handed out, and each
// message goes to the part that answers it (server_requests.cpp). Each part knows the clients
// (client_table.hpp), and of the other parts only what it is given. All run on the one thread of
// the event loop.
#pragma once

#include <cstdint>
#include <string>

#include "capture_broker.hpp"
#include "client_table.hpp"
#include "event_journal.hpp"
#include "event_loop.hpp"
#include "fault_changes.hpp"
#include "imports.hpp"
#include "instance.hpp"
#include "lifetime.hpp"
#include "listener.hpp"
#include "outstanding_orders.hpp"
#include "peer_questions.hpp"
#include "questions.hpp"
#include "raised_events.hpp"
#include "ring_broker.hpp"
#include "rule_events.hpp"
#include "session.hpp"
#include "status_questions.hpp"
#include "verbena/fabric/fabric.hpp"
#include "xrc_broker.hpp"

namespace verbena::daemon {

class Server final {
 public:
  Server(EventLoop& loop, Instance& instance, fabric::Fabric& fabric, Shares& shares,
         bool exit_when_idle);

  // Takes the socket that Instance::listen() made.
  void start(control::UniqueFd listening);
  // Ends the emulator in an orderly way. The event loop returns afterwards.
  void shut_down(const std::string& reason);
  void set_extension(fabric::Extension* extension) { extension_ = extension; }
  // Begins to listen anew after the runtime directory was removed.
  void restore_runtime_dir();
  // Must be called when the host's addresses or interfaces have changed.
  void follow_interfaces();

  // Gives the extension access to the clients.
  fabric::Clients& clients() { return clients_; }

 private:
  void add_session(control::UniqueFd fd, std::uint32_t pid);
  void remove_session(Session::Id id);
  void close_context(Session& session);

  // Defined in server_requests.cpp:
  void on_message(Session& session, control::Incoming in);
  bool check_hello_and_version(Session& session, const control::Incoming& in);
  void dispatch(Session& session, const control::Incoming& in);
  void on_hello(Session& session, const control::Incoming& in);
  void on_open_device(Session& session, const control::Incoming& in);
  void on_extra_slot(Session& session, const control::Incoming& in);
  void on_open_address(Session& session, const control::Incoming& in);
  void on_attach(Session& session, const control::Incoming& in);
  void on_detach(Session& session, const control::Incoming& in);
  void on_status_query(Session& session, const control::Incoming& in);
  void on_set_port(Session& session, const control::Incoming& in);
  void on_announce(Session& session, const control::Incoming& in);
  void on_refresh_counters(Session& session, const control::Incoming& in);
  void on_query_counters(Session& session, const control::Incoming& in);
  void on_down(Session& session, const control::Incoming& in);
  void on_ring_request(Session& session, const control::Incoming& in);
  void on_ring_accepted(Session& session, const control::Incoming& in);
  void on_rules_changed();
  void set_port_state(fabric::Port& port, bool up);
  void relay(fabric::Port& port, std::uint32_t slot, const control::Relayed& datagram);

  EventLoop& loop_;
  Instance& instance_;
  fabric::Fabric& fabric_;
  fabric::Extension* extension_ = nullptr;
  bool ending_ = false;
  ClientTable clients_;
  Listener listener_;
  Lifetime lifetime_;
  EventJournal journal_{clients_, loop_};
  StatusQuestions status_{fabric_, clients_, loop_};
  CaptureBroker captures_{fabric_, clients_, loop_};
  RingBroker rings_;
  PeerQuestions peers_{fabric_, clients_};
  Questions questions_{clients_};
  XrcBroker xrc_{clients_, questions_, loop_};
  RaisedEvents raised_events_{fabric_, clients_, loop_, questions_};
  OutstandingOrders orders_{clients_, loop_};
  Imports imports_{clients_, questions_, orders_};
  RuleEvents rule_events_{fabric_, clients_, loop_, journal_,
                          [this](fabric::Port& port, bool up) { set_port_state(port, up); }};
  FaultChanges faults_{fabric_, clients_, loop_, journal_, orders_, [this] { on_rules_changed(); }};
};

}  // namespace verbena::daemon
