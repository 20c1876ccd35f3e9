// SPDX-License-Identifier: BSD-2-Clause
// How a client finds its emulator, and how the two name its connection.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/control/channel.hpp"
#include "verbena/control/messages.hpp"

namespace verbena::control {

// A bare connection to the daemon of `dir`, close-on-exec, nothing sent on it yet. ENOENT or
// ECONNREFUSED: no emulator runs. EACCES: the directory or the socket belongs to somebody else.
Outcome<Channel> connect_to_daemon(const std::string& dir);

// Hello and Welcome on a fresh connection; `comm` is read from /proc.
Outcome<Welcome> say_hello(Channel& channel, ClientKind kind, int timeout_ms = kDefaultTimeoutMs);

// Of the calling thread; 0: unknown.
std::uint64_t network_namespace();

// The abstract name that one end of a connection is bound to; empty: none. Each duplicate of the
// descriptor, in whatever process, has it, too.
enum class End : std::uint8_t { kOwn, kPeer };
std::string abstract_name(int socket, End end);

}  // namespace verbena::control
