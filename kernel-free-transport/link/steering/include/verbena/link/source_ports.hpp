// SPDX-License-Identifier: BSD-2-Clause
// The UDP ports from which all devices of one emulator send, so that a receiver can tell who sent.
// While this object holds them, on every address of the host, no other user's program can bind one
// of them, and therefore none can send from one, whatever source address it names. (A sender may
// name any address of its host as the source, but only its own port.) The sending sockets share the
// ports by SO_REUSEPORT, which the kernel grants to one user's sockets only.
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
  // The ports are a block that begins at a multiple of kCount. It lies above the ports that the
  // kernel hands out, if possible, and never below the range that RoCEv2 sends from (kLowest).
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

// Says whose packets a socket accepts.
struct SenderRule {
  std::uint16_t first_source_port = 0;  // the first of the emulator's own; 0: any port is accepted
  // True if devices of others may be peers. They have addresses of their own: packets from the
  // local address have to come from the emulator's ports.
  bool has_foreign_peers = true;
};

// Makes the kernel throw away what the rule forbids before it reaches the socket's buffer. Returns
// false if the kernel refuses (errno).
bool take_only(int fd, const IpAddress& local, const SenderRule& rule);

}  // namespace verbena::link
