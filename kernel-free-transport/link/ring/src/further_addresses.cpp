// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/link/further_addresses.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <utility>

#include "verbena/base/standard_streams.hpp"

namespace verbena::link {

FurtherAddresses::~FurtherAddresses() {
  if (const int fd = wait_fd_.read(); fd >= 0) ::close(fd);
}

bool FurtherAddresses::add(std::uint8_t number, std::unique_ptr<UdpLink> udp) {
  const Guard guard(lock_);
  if (wait_fd_.read() < 0) wait_fd_.publish(beyond_streams(::epoll_create1(EPOLL_CLOEXEC)));
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(wait_fd_.read(), EPOLL_CTL_ADD, udp->wait_fd(), &event) != 0) return false;
  const IpAddress address = udp->local();
  all_.push_back(std::make_unique<Further>(Further{address, std::move(udp)}));
  by_number_[number].publish(all_.back().get());
  return true;
}

UdpLink* FurtherAddresses::udp(std::uint8_t number) const noexcept {
  const Further* further = find(number);
  return further != nullptr ? further->udp.get() : nullptr;
}

const IpAddress* FurtherAddresses::address(std::uint8_t number) const noexcept {
  const Further* further = find(number);
  return further != nullptr ? &further->address : nullptr;
}

void FurtherAddresses::leave_sockets_for(int other) noexcept {
  for (const auto& further : by_number_) {
    if (further.read() != nullptr) further.read()->udp->leave_socket_for(other);
  }
}

void FurtherAddresses::adopt() {
  const Guard guard(lock_);
  for (std::size_t i = received_.size(); i < all_.size(); ++i) {
    received_.push_back(all_[i]->udp.get());
    if (wants_header_fields_) received_.back()->want_header_fields();
  }
}

std::size_t FurtherAddresses::receive(RxSink& sink, std::size_t budget) noexcept {
  std::size_t count = 0;
  for (UdpLink* udp : received_) count += udp->receive(sink, budget);
  return count;
}

void FurtherAddresses::want_header_fields() noexcept {
  if (std::exchange(wants_header_fields_, true)) return;
  for (UdpLink* udp : received_) udp->want_header_fields();
}

}  // namespace verbena::link
