// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm_service/neighbours.hpp"

#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>

#include "verbena/control/unique_fd.hpp"

namespace verbena::cm_service {
namespace {

using control::UniqueFd;

constexpr std::uint16_t kDiscardPort = 9;

std::span<const std::uint8_t> bytes_of(const IpAddress& address) {
  return std::span(address.bytes).subspan(address.is_v4() ? 12 : 0);
}

std::uint8_t family_of(const IpAddress& address) { return address.is_v4() ? AF_INET : AF_INET6; }

// A netlink request with one header and one attribute, in a buffer that also holds the answer.
template <typename Head>
class Question {
 public:
  Question(std::uint16_t type, const Head& head, std::uint16_t attribute,
           std::span<const std::uint8_t> value) {
    nlmsghdr header{};
    header.nlmsg_len =
        static_cast<std::uint32_t>(NLMSG_SPACE(sizeof head) + RTA_LENGTH(value.size()));
    header.nlmsg_type = type;
    header.nlmsg_flags = NLM_F_REQUEST;
    rtattr place{};
    place.rta_len = static_cast<std::uint16_t>(RTA_LENGTH(value.size()));
    place.rta_type = attribute;
    std::memcpy(bytes_.data(), &header, sizeof header);
    std::memcpy(bytes_.data() + NLMSG_HDRLEN, &head, sizeof head);
    std::uint8_t* at = bytes_.data() + NLMSG_SPACE(sizeof head);
    std::memcpy(at, &place, sizeof place);
    std::memcpy(at + RTA_LENGTH(0), value.data(), value.size());
    size_ = header.nlmsg_len;
  }

  // Returns 0, or the errno that the kernel answers.
  int ask(std::uint16_t answer) {
    const UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!fd || ::send(fd.get(), bytes_.data(), size_, 0) < 0) return errno;
    const ssize_t got = ::recv(fd.get(), bytes_.data(), bytes_.size(), 0);
    if (got < 0) return errno;
    nlmsghdr header;
    size_ = static_cast<std::size_t>(got);
    if (size_ < sizeof header) return EPROTO;
    std::memcpy(&header, bytes_.data(), sizeof header);
    if (header.nlmsg_type == answer && size_ >= NLMSG_SPACE(sizeof(Head))) return 0;
    nlmsgerr error{};
    if (header.nlmsg_type != NLMSG_ERROR || size_ < NLMSG_LENGTH(sizeof error)) return EPROTO;
    std::memcpy(&error, bytes_.data() + NLMSG_HDRLEN, sizeof error);
    return error.error == 0 ? EPROTO : -error.error;
  }

  Head head() const {
    Head head;
    std::memcpy(&head, bytes_.data() + NLMSG_HDRLEN, sizeof head);
    return head;
  }
  // Returns an attribute of the answer, if the answer has it.
  std::optional<std::span<const std::uint8_t>> attribute(std::uint16_t type) const {
    std::size_t at = NLMSG_SPACE(sizeof(Head));
    for (rtattr place; at + sizeof place <= size_; at += RTA_ALIGN(place.rta_len)) {
      std::memcpy(&place, bytes_.data() + at, sizeof place);
      if (place.rta_len < sizeof place || at + place.rta_len > size_) break;
      if (place.rta_type == type) {
        return std::span(bytes_).subspan(at + RTA_LENGTH(0), place.rta_len - RTA_LENGTH(0));
      }
    }
    return std::nullopt;
  }

 private:
  std::array<std::uint8_t, 2048> bytes_{};
  std::size_t size_ = 0;
};

struct NextHop {
  int interface = 0;
  IpAddress address;
};

// Returns nothing if no neighbour is asked: the address is the host's own, or cannot be reached.
std::optional<NextHop> next_hop(const IpAddress& address) {
  rtmsg head{};
  head.rtm_family = family_of(address);
  head.rtm_dst_len = static_cast<std::uint8_t>(bytes_of(address).size() * 8);
  Question<rtmsg> route(RTM_GETROUTE, head, RTA_DST, bytes_of(address));
  if (route.ask(RTM_NEWROUTE) != 0 || route.head().rtm_type != RTN_UNICAST) return std::nullopt;
  NextHop hop{0, address};
  const auto interface = route.attribute(RTA_OIF);
  if (!interface || interface->size() != sizeof hop.interface) return std::nullopt;
  std::memcpy(&hop.interface, interface->data(), sizeof hop.interface);
  if (const auto gateway = route.attribute(RTA_GATEWAY);
      gateway && gateway->size() == bytes_of(address).size()) {
    std::memcpy(hop.address.bytes.data() + (address.is_v4() ? 12 : 0), gateway->data(),
                gateway->size());
  }
  return hop;
}

bool has_neighbours(int interface) {
  ifreq request{};
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return fd && ::if_indextoname(static_cast<unsigned>(interface), request.ifr_name) != nullptr &&
         ::ioctl(fd.get(), SIOCGIFFLAGS, &request) == 0 &&
         (request.ifr_flags & (IFF_NOARP | IFF_LOOPBACK)) == 0;
}

void provoke_question(const IpAddress& address) {
  const UniqueFd fd(::socket(family_of(address), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return;
  if (address.is_v4()) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(kDiscardPort);
    to.sin_addr.s_addr = htonl(address.v4_host_order());
    (void)::sendto(fd.get(), "", 0, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    return;
  }
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(kDiscardPort);
  std::memcpy(&to.sin6_addr, address.bytes.data(), address.bytes.size());
  (void)::sendto(fd.get(), "", 0, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
}

}  // namespace

bool has_answered(const IpAddress& address) {
  const std::optional<NextHop> hop = next_hop(address);
  if (!hop || !has_neighbours(hop->interface)) return true;
  ndmsg head{};
  head.ndm_family = family_of(address);
  head.ndm_ifindex = hop->interface;
  Question<ndmsg> neighbour(RTM_GETNEIGH, head, NDA_DST, bytes_of(hop->address));
  const int error = neighbour.ask(RTM_NEWNEIGH);
  if (error != 0 && error != ENOENT) return true;
  const unsigned state = error == 0 ? neighbour.head().ndm_state : unsigned{NUD_NONE};
  constexpr unsigned kValid =
      NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP;
  if ((state & kValid) != 0) return true;
  if ((state & NUD_INCOMPLETE) == 0) provoke_question(address);
  return false;
}

}  // namespace verbena::cm_service
