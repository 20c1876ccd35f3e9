// SPDX-License-Identifier: BSD-2-Clause
// Accepts clients: only those of the same user, and of each process no more than its share of
// descriptors allows. A client that is refused reads the reason. When no descriptor is left, the
// spare one serves to say so. Otherwise the waiting client would hang and wake the daemon again and
// again. Owned by the server, on its thread.
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

  // How long the listener pauses when not even the spare descriptor is left.
  static constexpr TimeNs kPauseNs = 100'000'000;

  Listener(Reactor& reactor, const ClientTable& clients, const limits::FairShare& descriptors,
           Accept accept);
  ~Listener() { stop(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Listens to this socket in place of the one before.
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
