// SPDX-License-Identifier: BSD-2-Clause
// The further addresses of a port, each with a UDP socket of its own, by their numbers
// (Destination::source).
//
// Threads: any thread may call add(), udp(), address() and wait_fd(). All other calls are made
// under the receive lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "verbena/base/address.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/link/udp_link.hpp"

namespace verbena::link {

class FurtherAddresses {
 public:
  // Numbers are below this limit; 0 is the port's own address.
  static constexpr std::size_t kNumbersMax = 16;

  FurtherAddresses() = default;
  FurtherAddresses(const FurtherAddresses&) = delete;
  FurtherAddresses& operator=(const FurtherAddresses&) = delete;
  ~FurtherAddresses();

  // Adds an address, once for each number from 1 on. Packets can be sent from it at once; packets
  // to it are received after the next adopt(). Returns false if the system cannot wait on the
  // socket.
  bool add(std::uint8_t number, std::unique_ptr<UdpLink> udp);
  // Returns null if the number was never given.
  UdpLink* udp(std::uint8_t number) const noexcept;
  const IpAddress* address(std::uint8_t number) const noexcept;
  // Readable when something came to a further address; -1 if there are none.
  int wait_fd() const noexcept { return wait_fd_.read(); }

  // Does what UdpLink::leave_socket_for() does, for all addresses.
  void leave_sockets_for(int other) noexcept;

  // From now on also receives what comes to the addresses that were added since the last call.
  void adopt();
  std::size_t receive(RxSink& sink, std::size_t budget) noexcept;
  // Does what UdpLink::want_header_fields() does, for the adopted addresses and for later ones.
  void want_header_fields() noexcept;

 private:
  struct Further {
    IpAddress address;
    std::unique_ptr<UdpLink> udp;
  };

  const Further* find(std::uint8_t number) const noexcept {
    return number < kNumbersMax ? by_number_[number].read() : nullptr;
  }

  Lock lock_;  // guards all_
  std::vector<std::unique_ptr<Further>> all_;
  std::array<Published<Further*>, kNumbersMax> by_number_{};  // null: no such address
  Published<int> wait_fd_{-1};                                // an epoll of their sockets
  std::vector<UdpLink*> received_;
  bool wants_header_fields_ = false;
};

}  // namespace verbena::link
