// SPDX-License-Identifier: BSD-2-Clause
#include "lifetime.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace verbena::daemon {
namespace {

bool has_ended(int pidfd) {
  pollfd p{pidfd, POLLIN, 0};
  return ::poll(&p, 1, 0) == 1;
}

}  // namespace

Lifetime::~Lifetime() {
  for (const auto& [pid, fd] : holds_) reactor_.unwatch(fd.get());
}

void Lifetime::on_hold(Session& session, const control::Incoming& in) {
  const std::uint32_t pid = session.info.pid;
  const auto held = holds_.find(pid);
  // Another process with this number may have ended just now.
  if (held != holds_.end() && has_ended(held->second.get())) end_hold(pid);
  if (holds_.contains(pid)) return session.answer(in.header.sequence, control::Done{});
  if (!descriptors_.may_take(pid)) {
    return session.refuse(in.header.sequence,
                          {EMFILE, "process " + std::to_string(pid) +
                                       " has its share of the emulator's descriptors"});
  }
  control::UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<int>(pid), 0)));
  if (!pidfd) {
    return session.refuse(in.header.sequence, {errno, std::string("cannot watch your process: ") +
                                                          std::strerror(errno)});
  }
  const int fd = pidfd.get();
  reactor_.watch(fd, [this, pid] {
    end_hold(pid);
    consider();
  });
  holds_.emplace(pid, std::move(pidfd));
  descriptors_.take(pid);
  session.answer(in.header.sequence, control::Done{});
}

void Lifetime::end_hold(std::uint32_t pid) {
  reactor_.unwatch(holds_.at(pid).get());
  holds_.erase(pid);
  descriptors_.give_back(pid);
}

void Lifetime::end_when_idle() {
  ends_when_idle_ = true;
  consider();
}

void Lifetime::on_client_came() {
  if (linger_) reactor_.cancel(*linger_);
  linger_.reset();
}

void Lifetime::consider() {
  if (linger_ || !is_idle()) return;
  linger_ = reactor_.after(kLingerNs, [this] {
    linger_.reset();
    if (is_idle()) end_();
  });
}

}  // namespace verbena::daemon
