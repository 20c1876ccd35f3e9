// SPDX-License-Identifier: BSD-2-Clause
#include "header_option.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

namespace verbena::link {
namespace {

constexpr std::uint8_t kUsualHopLimit = 64;

bool set_option(int fd, int level, int option, int value) noexcept {
  return ::setsockopt(fd, level, option, &value, sizeof value) == 0;
}

}  // namespace

void HeaderOption::open(int fd, bool is_v4) noexcept {
  is_v4_ = is_v4;
  set(fd, {0, kUsualHopLimit});
}

// A group's packets go by an option of their own, which nobody changes.
bool HeaderOption::covers(int fd, const wire::Destination& to) noexcept {
  const Fields wanted{to.traffic_class, to.hop_limit};
  // There is no option for it.
  if (!is_v4_ && to.flow_label != 0) return false;
  if (to.address.is_multicast()) {
    return is_known_ && wanted == Fields{fields_.traffic_class, kUsualHopLimit};
  }
  if (is_known_ && wanted == fields_) {
    habit_.interrupt();
    return true;
  }
  // 0 is no hop limit that the kernel takes.
  return wanted.hop_limit != 0 && habit_.forms(wanted) && set(fd, wanted);
}

bool HeaderOption::set(int fd, const Fields& fields) noexcept {
  const int level = is_v4_ ? IPPROTO_IP : IPPROTO_IPV6;
  const int saved = errno;
  is_known_ = set_option(fd, level, is_v4_ ? IP_TOS : IPV6_TCLASS, fields.traffic_class) &&
              set_option(fd, level, is_v4_ ? IP_TTL : IPV6_UNICAST_HOPS, fields.hop_limit);
  errno = saved;
  fields_ = fields;
  return is_known_;
}

}  // namespace verbena::link
