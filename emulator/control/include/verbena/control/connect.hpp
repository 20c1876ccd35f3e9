// How a client finds its emulator.
#pragma once

#include <string>

#include "verbena/control/channel.hpp"
#include "verbena/control/messages.hpp"

namespace verbena::control {

// A bare connection to the daemon of `dir`, close-on-exec, nothing sent on it yet. ENOENT or
// ECONNREFUSED: no emulator runs. EACCES: the directory or the socket belongs to somebody else.
Outcome<Channel> connect_to_daemon(const std::string& dir);

// Hello and Welcome on a fresh connection; `comm` is read from /proc.
Outcome<Welcome> say_hello(Channel& channel, ClientKind kind, int timeout_ms = kDefaultTimeoutMs);

}  // namespace verbena::control
