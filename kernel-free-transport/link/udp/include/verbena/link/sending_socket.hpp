// SPDX-License-Identifier: BSD-2-Clause
// UDP sockets to send from: bound to a port's address and to a source port, which is one of the
// emulator's (source_ports.hpp) or one that the kernel picks. Their options make the ICRC
// computable (README.md, "Rules of the sending sockets").
#pragma once

#include <cstdint>

#include "verbena/base/address.hpp"
#include "verbena/base/result.hpp"
#include "verbena/link/socket_error.hpp"
#include "verbena/link/udp_link.hpp"

namespace verbena::link {

// Sending sockets use this hop limit, traffic class 0 and flow label 0, unless a send names others.
inline constexpr std::uint8_t kUsualHopLimit = 64;

struct SendingSocket {
  int fd = -1;
  std::uint16_t port = 0;
};

// Opens a sending socket. If options.grh_from_port is set, the source port's parity says whether
// there is a GRH. `which` is the socket's number among the sender's and picks one of the emulator's
// ports. The caller owns the descriptor. Failure: the errno.
Result<SendingSocket, int> open_sending_socket(const IpAddress& local, const UdpOptions& options,
                                               bool has_grh, unsigned which = 0) noexcept;
// Returns the error in words for people.
SocketError sending_socket_error(int error, const IpAddress& local);

}  // namespace verbena::link
