// SPDX-License-Identifier: BSD-2-Clause
// The daemon's centre: accepts clients, hands out slots, passes on what concerns many. All on the
// one thread of the event loop. What each message does stands in server_requests.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "capture_broker.hpp"
#include "client_table.hpp"
#include "event_journal.hpp"
#include "event_loop.hpp"
#include "fault_changes.hpp"
#include "imports.hpp"
#include "instance.hpp"
#include "outstanding_orders.hpp"
#include "questions.hpp"
#include "raised_events.hpp"
#include "ring_broker.hpp"
#include "rule_events.hpp"
#include "session.hpp"
#include "status_round.hpp"
#include "status_stream.hpp"
#include "verbena/control/connect.hpp"
#include "verbena/control/event_messages.hpp"
#include "verbena/control/silent_processes.hpp"
#include "verbena/control/status_messages.hpp"
#include "verbena/fabric/fabric.hpp"
#include "xrc_broker.hpp"

namespace verbena::daemon {

class Server final : private StatusStream::Host {
 public:
  // How long the contexts have to answer a question about their state.
  static constexpr TimeNs kStatusDeadlineNs = 500'000'000;
  // With no descriptor at all left, this long until the next look.
  static constexpr TimeNs kAcceptPauseNs = 100'000'000;
  // After a capture took no more contexts.
  static constexpr TimeNs kCaptureRetryNs = 20'000'000;
  // An emulator started on demand waits this long for the next user.
  static constexpr TimeNs kIdleLingerNs = 1'000'000'000;

  Server(EventLoop& loop, Instance& instance, fabric::Fabric& fabric, Shares& shares,
         bool exit_when_idle);
  ~Server();

  // Takes the socket that Instance::listen() made.
  void start(control::UniqueFd listening);
  // An orderly end; the event loop returns afterwards.
  void shut_down(const std::string& reason);
  void set_extension(fabric::Extension* extension) { extension_ = extension; }
  // Begins to listen anew after the runtime directory was taken away.
  void restore_runtime_dir();
  // The host's addresses or interfaces are not what they were.
  void follow_interfaces();

  // For the extension.
  fabric::Clients& clients() { return clients_; }

 private:
  void accept_all();
  bool accept_one();
  std::optional<control::Error> reason_against(std::uint32_t pid) const;
  void refuse_for_want_of_descriptors();
  void pause_accepting();
  void add_session(control::UniqueFd fd, std::uint32_t pid);
  void remove_session(Session::Id id);
  void close_context(Session& session);

  // server_requests.cpp
  void on_message(Session& session, control::Incoming in);
  bool check_hello_and_version(Session& session, const control::Incoming& in);
  void dispatch(Session& session, const control::Incoming& in);
  void on_hello(Session& session, const control::Incoming& in);
  void on_open_device(Session& session, const control::Incoming& in);
  void on_extra_slot(Session& session, const control::Incoming& in);
  void on_open_address(Session& session, const control::Incoming& in);
  void on_attach(Session& session, const control::Incoming& in);
  void on_detach(Session& session, const control::Incoming& in);
  void on_status_report(Session& session, const control::Incoming& in);
  void on_hold(Session& session, const control::Incoming& in);
  void end_hold(std::uint32_t pid);
  void on_status_query(Session& session, const control::Incoming& in);
  void on_query_resources(Session& session, const control::Incoming& in);
  void on_set_port(Session& session, const control::Incoming& in);
  void on_announce(Session& session, const control::Incoming& in);
  void on_refresh_counters(Session& session, const control::Incoming& in);
  void on_query_counters(Session& session, const control::Incoming& in);
  void on_down(Session& session, const control::Incoming& in);
  void on_ring_request(Session& session, const control::Incoming& in);
  void on_ring_accepted(Session& session, const control::Incoming& in);
  // server_peers.cpp
  void on_peer_question(Session& session, const control::Incoming& in);
  void on_qp_answer(Session& session, const control::Incoming& in);
  Session* context_with_slot(const IpAddress& address, std::uint32_t slot);
  void remember_end_of(const Session& session);
  // server_captures.cpp
  void on_capture(Session& session, const control::Incoming& in);
  void capture_more();
  void capture_more_later();
  void end_capture_of(Session::Id owner);
  void follow_captured_addresses();
  void tell_captured(const control::CaptureOrder& order);

  void on_rules_changed();
  void set_port_state(fabric::Port& port, bool up);
  void relay(fabric::Port& port, std::uint32_t slot, const control::Relayed& datagram);

  // server_status.cpp
  void start_round(const std::string& device, StatusRound::Then then);
  void finish_round(std::uint32_t sequence);
  void start_stream(Session& session, const control::Incoming& in, const std::string& device,
                    std::unique_ptr<StatusWriter> writer);
  std::vector<ContextStatus> contexts_of(const std::vector<const fabric::Port*>& ports,
                                         StatusRound::Answers answers) const;
  void end_streams_of(Session::Id gone);
  std::optional<std::uint32_t> ask_for_page(fabric::ClientId context,
                                            const control::StatusRequest& request) override;
  void go_on_when_read(fabric::ClientId asker) override;
  void await_page(fabric::ClientId asker) override;
  void end_stream(fabric::ClientId asker) override;
  void consider_idle();

  EventLoop& loop_;
  Instance& instance_;
  fabric::Fabric& fabric_;
  Shares& shares_;
  bool exit_when_idle_;
  const std::uint64_t network_ = control::network_namespace();
  bool ending_ = false;
  control::UniqueFd listening_;
  control::UniqueFd spare_;  // given up to refuse a client when no descriptor is left
  fabric::Extension* extension_ = nullptr;
  ClientTable clients_{loop_, shares_};
  // Whose context a slot was last.
  struct Ended {
    std::uint32_t pid;
    std::string comm;
  };
  std::map<std::pair<const fabric::Port*, std::uint32_t>, Ended> ended_;
  EventJournal journal_{clients_, loop_};
  RingBroker rings_{shares_};
  Questions questions_{clients_};
  OutstandingOrders orders_{clients_, loop_};
  Imports imports_{clients_, questions_, orders_};
  XrcBroker xrc_{clients_, questions_};
  RuleEvents rule_events_{fabric_, clients_, loop_, journal_,
                          [this](fabric::Port& port, bool up) { set_port_state(port, up); }};
  FaultChanges faults_{fabric_, clients_, loop_, journal_, orders_, [this] { on_rules_changed(); }};
  RaisedEvents raised_events_{fabric_, clients_, questions_};
  // Pidfds of processes that `verbena run` became, by process: one each, however often it asks.
  std::map<std::uint32_t, control::UniqueFd> holds_;
  struct Round {
    std::unique_ptr<StatusRound> questions;
    fabric::Timers::Id deadline = 0;
  };
  std::map<std::uint32_t, Round> rounds_;  // by the sequence of the question
  struct Stream {
    std::unique_ptr<StatusWriter> writer;  // until the round before it has ended
    std::unique_ptr<StatusStream> stream;  // since then
    fabric::Timers::Id deadline = 0;
  };
  std::map<Session::Id, Stream> streams_;  // by their askers
  CaptureBroker captures_{fabric_};
  std::optional<fabric::Timers::Id> capture_retry_;
  std::optional<fabric::Timers::Id> linger_;
};

}  // namespace verbena::daemon
