// SPDX-License-Identifier: BSD-2-Clause
#include "address_watch.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>

namespace verbena::daemon {

void AddressWatch::start() {
  netlink_.reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  if (!netlink_) return;
  sockaddr_nl name{};
  name.nl_family = AF_NETLINK;
  name.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (::bind(netlink_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    netlink_.reset();
    return;
  }
  loop_.watch(netlink_.get(), [this] { on_word(); });
}

void AddressWatch::stop() {
  if (settling_ != 0) loop_.cancel(settling_);
  settling_ = 0;
  if (!netlink_) return;
  loop_.unwatch(netlink_.get());
  netlink_.reset();
}

// Reads all messages of the kernel and ignores what they say, even that some were lost: on_change_
// looks at all addresses anyway.
void AddressWatch::on_word() {
  char words[8192];
  while (::recv(netlink_.get(), words, sizeof words, 0) > 0 || errno == ENOBUFS) {
  }
  if (settling_ != 0) return;
  settling_ = loop_.after(kSettleNs, [this] {
    settling_ = 0;
    on_change_();
  });
}

}  // namespace verbena::daemon
