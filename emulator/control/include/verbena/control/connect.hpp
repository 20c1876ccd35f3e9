// SPDX-License-Identifier: BSD-2-Clause
// Finds the emulator for a client, and gives the names of a connection's two ends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "verbena/control/channel.hpp"
#include "verbena/control/messages.hpp"

namespace verbena::control {

struct ConnectOptions {
  std::string_view own_name{};  // becomes the abstract name of our end; empty: it has none
  int send_timeout_s = 0;       // limits how long the connect and each send wait; 0: no limit
};

// Connects to the daemon of `dir`, close-on-exec, and sends nothing yet. ENOENT or ECONNREFUSED: no
// emulator runs. EACCES: the directory or the socket belongs to another user.
Outcome<Channel> connect_to_daemon(const std::string& dir, const ConnectOptions& options = {});

// Exchanges Hello and Welcome on a fresh connection. Reads the program's name (`comm`) from /proc.
Outcome<Welcome> say_hello(Channel& channel, ClientKind kind, int timeout_ms = kDefaultTimeoutMs);

// Returns the network namespace of the calling thread; 0: unknown.
std::uint64_t network_namespace();

// Returns the abstract name that one end of a connection is bound to; empty: none. Every duplicate
// of the descriptor, in any process, has the same name.
enum class End : std::uint8_t { kOwn, kPeer };
std::string abstract_name(int socket, End end);

}  // namespace verbena::control
