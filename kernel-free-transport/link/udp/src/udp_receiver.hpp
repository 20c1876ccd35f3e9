// SPDX-License-Identifier: BSD-2-Clause
// The receiving half of a UdpLink: reads coalesced buffers and cuts verified packets out of them.
// One thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "division.hpp"
#include "verbena/link/socket_address.hpp"
#include "verbena/link/udp_link.hpp"
#include "verbena/wire/icrc.hpp"

namespace verbena::link {

class UdpReceiver {
 public:
  UdpReceiver(int fd, const IpAddress& local, const UdpOptions& options, DropCounters& drops,
              UdpStatistics& statistics);
  ~UdpReceiver();
  UdpReceiver(const UdpReceiver&) = delete;
  UdpReceiver& operator=(const UdpReceiver&) = delete;

  // Returns the number of packets, dropped ones included; 0 means that nothing was there.
  std::size_t receive(RxSink& sink) noexcept;
  void want_header_fields() noexcept;
  int fd() const { return fd_; }
  std::uint64_t buffer_bytes() const { return buffer_bytes_; }

 private:
  // One read: up to 64 KiB, and what the kernel says about them.
  struct Coalesced {
    std::span<const std::uint8_t> bytes;
    std::size_t segment_bytes = 0;  // the length that the kernel named; 0: none
    std::uint16_t source_port = 0;
    wire::RxDatagram fields;
  };
  bool read(Coalesced& out) noexcept;
  ssize_t read_plainly(SocketAddress& source) noexcept;
  ssize_t read_with_options(SocketAddress& source, Coalesced& out) noexcept;
  std::size_t deliver(const Coalesced& buffer, RxSink& sink) noexcept;

  int fd_;
  IpAddress local_;
  UdpOptions options_;
  DropCounters& drops_;
  UdpStatistics& statistics_;
  bool wants_fields_ = false;
  bool takes_coalesced_;
  std::uint64_t buffer_bytes_ = 0;

  std::unique_ptr<std::uint8_t[]> buffer_;
};

}  // namespace verbena::link
