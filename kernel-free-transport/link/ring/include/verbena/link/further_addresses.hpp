// SPDX-License-Identifier: BSD-2-Clause
// The further addresses of a port, each with a UDP socket of its own, by their numbers
// (Destination::source).
//
// Threads: add() and what reads by number, any. The rest under the receive lock.
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
  // Numbers are below it; 0 is the port's own address.
  static constexpr std::size_t kNumbersMax = 16;

  FurtherAddresses() = default;
  FurtherAddresses(const FurtherAddresses&) = delete;
  FurtherAddresses& operator=(const FurtherAddresses&) = delete;
  ~FurtherAddresses();

  // Once for each number, from 1 on. What is sent from it goes at once; what comes to it is
  // received after the next adopt(). False: the system has nothing left to wait on it.
  bool add(std::uint8_t number, std::unique_ptr<UdpLink> udp);
  // Null: the number was never given.
  UdpLink* udp(std::uint8_t number) const noexcept;
  const IpAddress* address(std::uint8_t number) const noexcept;
  // Readable when something came to one of them; -1: there are none.
  int wait_fd() const noexcept { return wait_fd_.read(); }

  // Receives from now on what comes to those that were added since.
  void adopt();
  std::size_t receive(RxSink& sink, std::size_t budget) noexcept;
  // As UdpLink says, of those that are adopted and of those to come.
  void want_header_fields() noexcept;

 private:
  struct Further {
    IpAddress address;
    std::unique_ptr<UdpLink> udp;
  };

  const Further* find(std::uint8_t number) const noexcept {
    return number < kNumbersMax ? by_number_[number].read() : nullptr;
  }

  Lock lock_;  // guards the list of all
  std::vector<std::unique_ptr<Further>> all_;
  std::array<Published<Further*>, kNumbersMax> by_number_{};  // null: not there
  Published<int> wait_fd_{-1};                                // an epoll of theirs
  std::vector<UdpLink*> received_;
  bool wants_header_fields_ = false;
};

}  // namespace verbena::link
