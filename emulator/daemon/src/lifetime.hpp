// SPDX-License-Identifier: BSD-2-Clause
// Decides how long an emulator that was started on demand stays: until its last client has gone and
// the last process that it is held for has ended, and a moment longer for the next user. Owned by
// the server, on its thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "client_table.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::daemon {

class Lifetime {
 public:
  // An emulator started on demand waits this long for the next user.
  static constexpr TimeNs kLingerNs = 1'000'000'000;

  Lifetime(Reactor& reactor, const ClientTable& clients, limits::FairShare& descriptors,
           bool ends_when_idle, std::function<void()> end)
      : reactor_(reactor),
        clients_(clients),
        descriptors_(descriptors),
        ends_when_idle_(ends_when_idle),
        end_(std::move(end)) {}
  ~Lifetime();
  Lifetime(const Lifetime&) = delete;
  Lifetime& operator=(const Lifetime&) = delete;

  bool ends_when_idle() const { return ends_when_idle_; }
  void stay() { ends_when_idle_ = false; }
  void end_when_idle();
  // `verbena run` becomes the program by execve(), which closes its connection. So the process is
  // watched, not the connection.
  void on_hold(Session& session, const control::Incoming& in);
  void on_client_came();
  // Must be called when clients may have gone.
  void consider();

 private:
  void end_hold(std::uint32_t pid);
  bool is_idle() const { return ends_when_idle_ && clients_.size() == 0 && holds_.empty(); }

  Reactor& reactor_;
  const ClientTable& clients_;
  limits::FairShare& descriptors_;
  bool ends_when_idle_;
  std::function<void()> end_;
  // Pidfds of the processes that `verbena run` became: one for each, however often it asks.
  std::map<std::uint32_t, control::UniqueFd> holds_;
  std::optional<fabric::Timers::Id> linger_;
};

}  // namespace verbena::daemon
