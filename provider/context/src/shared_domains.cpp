// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/shared_domains.hpp"

#include <fcntl.h>
#include <sys/resource.h>

#include <cerrno>
#include <string>
#include <utility>

#include "verbena/context/context.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/objects/limits.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {
namespace {

bool is_mtu(std::uint32_t bytes) {
  for (const Mtu mtu : {Mtu::k256, Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096}) {
    if (mtu_bytes(mtu) == bytes) return true;
  }
  return false;
}

// Returns a descriptor that keeps the file's inode and nothing else of it, such as a lock. Returns
// none if there is no /proc, or if the program may need the number for a file of its own.
control::UniqueFd held(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  control::UniqueFd file(::open(path.c_str(), O_PATH | O_CLOEXEC));
  rlimit limit{};
  const bool is_scarce = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && file &&
                         static_cast<rlim_t>(file.get()) >= limit.rlim_cur / 2;
  return is_scarce ? control::UniqueFd() : std::move(file);
}

// The program may have closed all descriptors, and may have a file of its own of this number.
void let_go(control::UniqueFd file) {
  const int flags = ::fcntl(file.get(), F_GETFL);
  if (flags == -1 || (flags & O_PATH) == 0) (void)file.release();
}

queue::ProxyQp proxy_of(const control::ProxyWanted& m) {
  queue::ProxyQp proxy;
  proxy.receiver = Qpn(m.receiver);
  proxy.line = Qpn(m.line);
  proxy.xrc_domain = m.domain;
  proxy.srq = m.srq;
  proxy.first = Psn(m.first);
  proxy.mtu = m.mtu;
  proxy.access_flags = m.access_flags;
  proxy.max_dest_rd_atomic = m.max_dest_rd_atomic;
  proxy.min_rnr_timer = m.min_rnr_timer;
  proxy.peer = Qpn(m.peer);
  proxy.peer_lid = m.peer_lid;
  proxy.service_level = m.service_level;
  return proxy;
}

}  // namespace

SharedDomains::~SharedDomains() {
  for (auto& [number, uses] : uses_) let_go(std::move(uses.file));
}

std::uint32_t SharedDomains::open(const char* verb, const File& file, int oflags) {
  const control::OpenDomain request{file.device, file.inode, (oflags & O_CREAT) != 0,
                                    (oflags & O_EXCL) != 0};
  const auto opened = context_.ask<control::DomainOpened>(request);
  if (!opened) refuse(opened.error().code, "%s: %s", verb, opened.error().text.c_str());
  control::UniqueFd descriptor = held(file.fd);
  const std::lock_guard guard(lock_);
  Uses& uses = uses_[opened->number];
  ++uses.count;
  ++uses.opens;
  if (!uses.file) uses.file = std::move(descriptor);
  return opened->number;
}

void SharedDomains::keep(std::uint32_t number) {
  const std::lock_guard guard(lock_);
  ++uses_[number].count;
}

void SharedDomains::close(std::uint32_t number, Await await) {
  std::uint32_t opens = 0;
  control::UniqueFd file;  // until the daemon has closed the domain
  {
    const std::lock_guard guard(lock_);
    const auto uses = uses_.find(number);
    if (uses == uses_.end() || --uses->second.count != 0) return;
    file = std::move(uses->second.file);
    opens = uses->second.opens;
    uses_.erase(uses);
  }
  for (; opens != 0 && !context_.is_fatal(); --opens) {
    if (await == Await::kDaemon) {
      (void)context_.ask<control::Ack>(control::CloseDomain{number});
    } else {
      context_.tell(control::CloseDomain{number});
    }
  }
  let_go(std::move(file));
}

void SharedDomains::want(const queue::ProxyQp& proxy) noexcept {
  context_.tell(control::ProxyWanted{proxy.receiver.value(), proxy.line.value(), proxy.xrc_domain,
                                     proxy.srq, proxy.first.value(), proxy.mtu, proxy.access_flags,
                                     proxy.max_dest_rd_atomic, proxy.min_rnr_timer,
                                     proxy.peer.value(), proxy.peer_lid, proxy.service_level});
}

void SharedDomains::release(Qpn receiver) noexcept {
  context_.tell(control::ProxiesReleased{receiver.value()});
}

// Returns null, and has explained why, if there can be no proxy.
qp::QueuePair* SharedDomains::proxy_for(const control::ProxyWanted& wanted) {
  const queue::ProxyQp proxy = proxy_of(wanted);
  device::Device& device = context_.device();
  wire::Destination receiver;
  receiver.address = device.options().address;
  const Line key{wanted.receiver, wanted.line};
  if (const auto known = proxies_.find(key); known != proxies_.end()) {
    device.change_proxy(*known->second, proxy, receiver);
    return known->second;
  }
  qp::QueuePair* made = device.create_proxy(proxy, receiver);
  if (made == nullptr) {
    explain(
        "XRC_RECV queue pair 0x%06x of another process cannot reach the SRQs of this one: all "
        "queue pair numbers are taken",
        wanted.receiver);
    return nullptr;
  }
  proxies_.emplace(key, made);
  return made;
}

void SharedDomains::on_wanted(const control::ProxyWanted& wanted) {
  qp::QueuePair* made = nullptr;
  if (!context_.is_fatal() && is_mtu(wanted.mtu) && wanted.max_dest_rd_atomic <= kMaxRdAtomic) {
    made = proxy_for(wanted);
  }
  if (made != nullptr) context_.first().rings().seek(Qpn(wanted.line));
  const std::uint32_t number = made != nullptr ? made->number().value() : 0;
  context_.tell(control::ProxyAnswer{wanted.receiver, wanted.line, number});
}

void SharedDomains::on_answer(const control::ProxyAnswer& answer) {
  device::Device& device = context_.device();
  const Qpn receiver(answer.receiver);
  const Qpn line(answer.line);
  const TimeNs now = link::monotonic_now_ns();
  if (answer.proxy == 0) return device.refuse_line(receiver, line, now);
  context_.first().rings().seek(Qpn(answer.proxy));
  wire::Destination there;
  there.address = device.options().address;
  device.connect_line(receiver, line, there, Qpn(answer.proxy), now);
}

void SharedDomains::on_released(const control::ProxiesReleased& released) {
  for (auto at = proxies_.lower_bound({released.receiver, 0});
       at != proxies_.end() && at->first.first == released.receiver;) {
    context_.device().destroy_proxy(at->second);
    at = proxies_.erase(at);
  }
}

}  // namespace verbena::provider
