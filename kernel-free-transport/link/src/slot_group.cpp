#include "verbena/link/slot_group.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "port_holder.hpp"
#include "sender_filter.hpp"
#include "socket_address.hpp"
#include "udp_constants.hpp"
#include "verbena/base/check.hpp"

namespace verbena::link {
namespace {

SocketError socket_error(int error, const std::string& doing, const IpAddress& local) {
  return {error, doing + " " + local.to_string() + " failed: " + std::strerror(error)};
}

// EADDRINUSE and EADDRNOTAVAIL are what users meet; the rest is the system's own words.
SocketError bind_error(int error, const IpAddress& local, std::uint16_t port) {
  const std::string place = "UDP port " + std::to_string(port) + " of " + local.to_string();
  if (error == EADDRINUSE) {
    return {error, place + " is taken by " + port_holder(local, port)};
  }
  if (error == EADDRNOTAVAIL) {
    return {error, local.to_string() + " is not an address of this host; `ip address` lists them"};
  }
  return socket_error(error, "binding " + place + " at", local);
}

// The largest receive buffer that this process may have. FORCE needs a capability and ignores
// net.core.rmem_max; without it the kernel gives as much as it allows.
void enlarge_receive_buffer(int fd, int bytes) {
  if (::setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) == 0) return;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

// Slots that stand for the sockets of others, as the filter asks for them: one question for
// neighbours that lead to the same socket, because the kernel limits how long a filter may be.
void add_extra_slots(std::vector<sock_filter>& code,
                     std::map<SlotGroup::Slot, SlotGroup::Slot>::const_iterator first,
                     std::map<SlotGroup::Slot, SlotGroup::Slot>::const_iterator end) {
  while (first != end) {
    const auto [lowest, owner] = *first;
    SlotGroup::Slot highest = lowest;
    for (++first; first != end && first->first == highest + 1 && first->second == owner; ++first) {
      ++highest;
    }
    if (lowest == highest) {
      code.push_back(jump(BPF_JMP | BPF_JEQ | BPF_K, lowest, 0, 1));
    } else {
      code.push_back(jump(BPF_JMP | BPF_JGE | BPF_K, lowest, 0, 2));
      code.push_back(jump(BPF_JMP | BPF_JGT | BPF_K, highest, 1, 0));
    }
    code.push_back(statement(BPF_RET | BPF_K, owner));
  }
}

// Payload offset 0 is the BTH, whose second word carries the destination QPN. A load beyond the
// end of the datagram ends the filter with 0.
void append_steering(std::vector<sock_filter>& code, std::size_t sockets,
                     const std::map<SlotGroup::Slot, SlotGroup::Slot>& extra) {
  code.push_back(statement(BPF_LD | BPF_W | BPF_ABS, 4));
  code.push_back(statement(BPF_ALU | BPF_AND | BPF_K, kMask24));
  code.push_back(statement(BPF_ALU | BPF_RSH | BPF_K, Qpn::kIndexBits));
  const auto beyond = extra.lower_bound(static_cast<SlotGroup::Slot>(sockets));
  add_extra_slots(code, extra.begin(), beyond);
  code.push_back(jump(BPF_JMP | BPF_JGE | BPF_K, static_cast<std::uint32_t>(sockets), 1, 0));
  code.push_back(statement(BPF_RET | BPF_A, 0));
  add_extra_slots(code, beyond, extra.end());
  code.push_back(statement(BPF_RET | BPF_K, 0));
}

}  // namespace

Result<SlotGroup, SocketError> SlotGroup::open(const IpAddress& local,
                                               const SlotGroupOptions& options) {
  SlotGroup group(local, options);
  auto first = group.open_socket(true);
  if (!first) return Failure{first.error()};
  group.fds_.push_back(*first);
  if (!take_only(*first, local, options.senders)) {
    return Failure{socket_error(errno, "attaching the senders' filter to", local)};
  }
  return group;
}

SlotGroup::SlotGroup(SlotGroup&& other) noexcept
    : local_(other.local_),
      options_(other.options_),
      fds_(std::exchange(other.fds_, {})),
      free_(std::exchange(other.free_, {})),
      extra_(std::exchange(other.extra_, {})) {}

SlotGroup::~SlotGroup() {
  for (const int fd : fds_) ::close(fd);
}

// The first socket binds `alone`, without SO_REUSEPORT: were another group of this user there
// already, ours would be appended to it and every index be wrong. It opens up afterwards.
Result<int, SocketError> SlotGroup::open_socket(bool alone) const {
  const SocketAddress address(local_, options_.port, options_.scope_id);
  const int fd = ::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return Failure{socket_error(errno, "opening a UDP socket for", local_)};
  const int on = 1;
  if (address.family() == AF_INET6) {
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    ::setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, &on, sizeof on);
  }
  enlarge_receive_buffer(fd, options_.receive_buffer_bytes);
  const auto share = [&] { return ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on); };
  if ((!alone && share() < 0) || ::bind(fd, address.get(), address.size()) < 0) {
    const int error = errno;
    ::close(fd);
    return Failure{bind_error(error, local_, options_.port)};
  }
  if (alone && share() < 0) {
    const int error = errno;
    ::close(fd);
    return Failure{socket_error(error, "sharing the UDP port of", local_)};
  }
  return fd;
}

Result<bool, SocketError> SlotGroup::attach_filter() {
  // A lone socket is no group yet, and needs no filter.
  if (fds_.size() == 1) return true;
  auto code = sender_check(local_, options_.senders);
  append_steering(code, fds_.size(), extra_);
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  if (::setsockopt(fds_[0], SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) < 0) {
    return Failure{socket_error(errno, "attaching the steering filter to", local_)};
  }
  return true;
}

SocketError SlotGroup::no_slot_left() const {
  return {ENOSPC, "all " + std::to_string(kMulticastSlot) + " slots of " + local_.to_string() +
                      " are in use"};
}

Result<SlotGroup::Slot, SocketError> SlotGroup::add_slot() {
  if (!free_.empty()) {
    const Slot slot = free_.back();
    free_.pop_back();
    drain(slot);
    return slot;
  }
  const auto next = static_cast<Slot>(fds_.size());
  if (next >= kMulticastSlot || extra_.contains(next)) return Failure{no_slot_left()};
  auto fd = open_socket(false);
  if (!fd) return Failure{fd.error()};
  fds_.push_back(*fd);
  if (auto attached = attach_filter(); !attached) {
    // Closing the last one moves nobody.
    ::close(fds_.back());
    fds_.pop_back();
    return Failure{attached.error()};
  }
  return static_cast<Slot>(fds_.size() - 1);
}

Result<SlotGroup::Slot, SocketError> SlotGroup::add_extra_slot(Slot slot) {
  VERBENA_CHECK(slot > 0 && slot < fds_.size());
  Slot extra = kMulticastSlot - 1;
  while (extra_.contains(extra)) --extra;
  // Not one that a socket may still get, as long as there are released ones.
  const bool is_released = extra < fds_.size();
  if (is_released) {
    if (free_.empty()) return Failure{no_slot_left()};
    extra = free_.back();
    free_.pop_back();
  }
  extra_[extra] = slot;
  if (auto attached = attach_filter(); !attached) {
    extra_.erase(extra);
    if (is_released) free_.push_back(extra);
    return Failure{attached.error()};
  }
  return extra;
}

void SlotGroup::release(Slot slot) {
  VERBENA_CHECK(slot > 0 && slot < fds_.size());
  VERBENA_CHECK(std::find(free_.begin(), free_.end(), slot) == free_.end());
  const auto leads_here = [&](const auto& entry) {
    if (entry.second != slot) return false;
    if (entry.first < fds_.size()) free_.push_back(entry.first);
    return true;
  };
  // Should the kernel refuse the smaller filter, the old one steers stale packets to a socket
  // that is drained before its next use: nothing to report.
  if (std::erase_if(extra_, leads_here) > 0) (void)attach_filter();
  drain(slot);
  free_.push_back(slot);
}

int SlotGroup::fd(Slot slot) const {
  VERBENA_CHECK(slot < fds_.size());
  return fds_[slot];
}

SlotGroup::Slot SlotGroup::owner_of(Slot slot) const {
  const auto entry = extra_.find(slot);
  if (entry != extra_.end()) return entry->second;
  return slot < fds_.size() ? slot : 0;
}

std::size_t SlotGroup::drain(Slot slot) {
  VERBENA_CHECK(slot < fds_.size());
  // Ends even while somebody keeps sending.
  constexpr std::size_t kDatagramsMax = 1u << 20;
  std::size_t count = 0;
  char nothing = 0;
  while (count < kDatagramsMax) {
    if (::recv(fds_[slot], &nothing, 0, MSG_DONTWAIT | MSG_TRUNC) < 0) {
      if (errno == EAGAIN) break;
      if (errno != EINTR && errno != ECONNREFUSED) break;
      continue;
    }
    ++count;
  }
  return count;
}

}  // namespace verbena::link
