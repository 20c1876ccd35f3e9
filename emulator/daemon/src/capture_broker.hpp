// SPDX-License-Identifier: BSD-2-Clause
// Who is captured, for the one `verbena capture` that may run. Each context gets a ring of its own,
// which it writes and the command reads; the daemon makes it, passes it on to both, and never looks
// at a packet. The command hears of a context before the context may send. Owned by the server, on
// its thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "session.hpp"
#include "verbena/control/capture_messages.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/fabric/fabric.hpp"

namespace verbena::daemon {

class CaptureBroker {
 public:
  explicit CaptureBroker(fabric::Fabric& fabric) : fabric_(fabric) {}

  bool is_running() const { return capture_.has_value(); }
  bool is_of(Session::Id command) const { return capture_ && capture_->command->id == command; }
  // Begins with the emulator's own queue pairs. The contexts are admitted one by one.
  control::Outcome<control::Done> start(Session& command, const control::Capture& request);
  void stop();
  // The ports may have other addresses than before: what those are told that were admitted, if so.
  std::optional<control::CaptureOrder> follow_addresses();
  bool has_admitted(const Session& context) const {
    return capture_ && capture_->numbers.contains(context.id);
  }

  // Whether the context is to be captured, and is not yet.
  bool wants(const Session& context) const;
  // What to tell it, with its ring; nothing if the command takes no more at this moment, or if
  // there is none to be had for this one (then it is wanted no longer).
  struct Order {
    control::CaptureOrder order;
    control::UniqueFd ring;
  };
  std::optional<Order> admit(const Session& context);
  void on_extra_slot(const Session& context, std::uint32_t slot);
  void on_context_closed(const Session& context);

 private:
  struct Running {
    Session* command = nullptr;
    std::string device;  // empty: all
    bool both_ends = false;
    std::vector<IpAddress> recorded_by_sender;
    std::map<Session::Id, std::uint32_t> numbers;  // of the sources
    std::uint32_t next_number = 1;
    bool covers(const fabric::Port& port) const {
      return device.empty() || port.info().name == device;
    }
  };

  control::Outcome<control::Done> capture_port(fabric::Port& port);
  // The addresses of all that is captured, unless both ends shall record.
  std::vector<IpAddress> recorded_by_sender() const;

  fabric::Fabric& fabric_;
  std::optional<Running> capture_;
};

}  // namespace verbena::daemon
