// SPDX-License-Identifier: BSD-2-Clause
// The UDP ports from which all devices of one emulator send, so that a receiver can tell who sent:
// as long as this holds them, on every address of the host, no other user's program can bind one
// of them, and so none can send from one, whatever source address it asks for. (A sender may name
// any address of its host as the source, but only its own port.) The sockets that send share them
// by SO_REUSEPORT, which the kernel grants to one user's sockets only.
//
// Owned by the emulator; made before the first device. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "verbena/base/address.hpp"
#include "verbena/base/result.hpp"
#include "verbena/link/socket_error.hpp"

namespace verbena::link {

class SourcePorts {
 public:
  // A block that begins at a multiple of it. Above the ports that the kernel hands out, if it can
  // be, and never below the range that RoCEv2 sends from.
  static constexpr std::uint16_t kCount = 8;
  static constexpr std::uint16_t kLowest = 0xc000;

  static Result<SourcePorts, SocketError> reserve();
  SourcePorts(SourcePorts&& other) noexcept;
  SourcePorts& operator=(SourcePorts&&) = delete;
  ~SourcePorts();

  std::uint16_t first() const { return first_; }

 private:
  SourcePorts() = default;

  std::uint16_t first_ = 0;
  std::vector<int> fds_;
};

// Whose packets a socket takes.
struct SenderRule {
  std::uint16_t first_source_port = 0;  // of the emulator's own; 0: everybody's
  // Devices of others may be peers. They have addresses of their own: from the local address come
  // packets of the emulator's ports only.
  bool has_foreign_peers = true;
};

// The kernel throws away what the rule forbids before it reaches the socket's buffer. False: it
// would not (errno).
bool take_only(int fd, const IpAddress& local, const SenderRule& rule);

}  // namespace verbena::link
