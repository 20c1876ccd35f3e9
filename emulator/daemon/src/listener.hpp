// SPDX-License-Identifier: BSD-2-Clause
// Accepts clients: of our own user only, and of each process no more than its share of descriptors
// allows. Who is turned away reads the reason. With no descriptor left, a spare one is given up to
// say so: else the client that waits would wake us for ever, and it would hang. Owned by the
// server, on its thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "client_table.hpp"
#include "verbena/control/error.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::daemon {

class Listener {
 public:
  using Accept = std::function<void(control::UniqueFd fd, std::uint32_t pid)>;

  // With no descriptor at all left, this long until the next look.
  static constexpr TimeNs kPauseNs = 100'000'000;

  Listener(Reactor& reactor, const ClientTable& clients, const limits::FairShare& descriptors,
           Accept accept);
  ~Listener() { stop(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // In place of what it listened to before.
  void start(control::UniqueFd listening);
  void stop();

 private:
  void accept_all();
  bool accept_one();
  std::optional<control::Error> reason_against(std::uint32_t pid) const;
  void refuse_for_want_of_descriptors();
  void pause();

  Reactor& reactor_;
  const ClientTable& clients_;
  const limits::FairShare& descriptors_;
  Accept accept_;
  control::UniqueFd listening_;
  control::UniqueFd spare_;
};

}  // namespace verbena::daemon
