// SPDX-License-Identifier: BSD-2-Clause
// Decides which contexts are captured, for the one `verbena capture` that may run. Each captured
// context gets a ring, which it writes and the command reads. The daemon makes the ring, passes it
// to both, and never looks at a packet. The command hears of a context before the context may send;
// if it does not read at that moment, the context is captured later. Owned by the server, on its
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client_table.hpp"
#include "verbena/control/capture_messages.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/fabric/fabric.hpp"

namespace verbena::daemon {

class CaptureBroker {
 public:
  // How long to wait after the command could take no more contexts.
  static constexpr TimeNs kRetryNs = 20'000'000;

  CaptureBroker(fabric::Fabric& fabric, ClientTable& clients, fabric::Timers& timers)
      : fabric_(fabric), clients_(clients), timers_(timers) {}

  void on_request(Session& command, const control::Incoming& in);
  // Tells the captured contexts if the ports have other addresses than before.
  void follow_addresses();

  // Returns what to tell a context that opens its device, with its ring. Returns nothing if the
  // context is not captured, or not yet.
  struct Order {
    control::CaptureOrder order;
    control::UniqueFd ring;
  };
  std::optional<Order> on_context_opened(const Session& context);
  void on_extra_slot(const Session& context, std::uint32_t slot);
  void on_context_closed(const Session& context);
  // Ends the capture if the client was its command.
  void on_client_gone(Session::Id gone);

 private:
  struct Running {
    Session* command = nullptr;
    std::string device;  // empty: all
    bool both_ends = false;
    std::vector<IpAddress> recorded_by_sender;
    std::map<Session::Id, std::uint32_t> numbers;  // numbers of the sources
    std::uint32_t next_number = 1;
    bool covers(const fabric::Port& port) const {
      return device.empty() || port.info().name == device;
    }
  };

  // Begins with the daemon's own queue pairs. The contexts are admitted afterwards, one by one.
  control::Outcome<control::Done> start(Session& command, const control::Capture& request);
  void stop();
  control::Outcome<control::Done> capture_port(fabric::Port& port);
  // Returns true if the context is to be captured and is not yet.
  bool wants(const Session& context) const;
  // Returns nothing if the command takes no more at this moment, or if no ring can be had for this
  // context (which is then not wanted any more).
  std::optional<Order> admit(const Session& context);
  void admit_more();
  void admit_more_later();
  void tell_admitted(const control::CaptureOrder& order);
  // Returns the addresses of all captured ports, or none if both ends are to record.
  std::vector<IpAddress> recorded_by_sender() const;

  fabric::Fabric& fabric_;
  ClientTable& clients_;
  fabric::Timers& timers_;
  std::optional<Running> capture_;
  std::optional<fabric::Timers::Id> retry_;
};

}  // namespace verbena::daemon
