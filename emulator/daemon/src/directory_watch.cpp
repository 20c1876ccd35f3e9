// SPDX-License-Identifier: BSD-2-Clause
#include "directory_watch.hpp"

#include <sys/inotify.h>
#include <unistd.h>

#include <string>

#include "verbena/control/runtime_dir.hpp"

namespace verbena::daemon {

void DirectoryWatch::start() {
  stop();
  inotify_.reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify_) return;  // none left for this user, so a loss goes unnoticed
  constexpr std::uint32_t kEvents = IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF;
  if (::inotify_add_watch(inotify_.get(), instance_.dir().c_str(), kEvents | IN_ONLYDIR) < 0) {
    inotify_.reset();
    return;
  }
  loop_.watch(inotify_.get(), [this] { on_event(); });
}

void DirectoryWatch::stop() {
  if (!inotify_) return;
  loop_.unwatch(inotify_.get());
  inotify_.reset();
}

void DirectoryWatch::on_event() {
  alignas(inotify_event) char events[4096];
  while (::read(inotify_.get(), events, sizeof events) > 0) {
  }
  const std::string& dir = instance_.dir();
  if (instance_.has_directory() && ::access(control::control_socket_path(dir).c_str(), F_OK) == 0 &&
      ::access(control::shadow_path(dir).c_str(), F_OK) == 0) {
    return;
  }
  stop();
  loop_.after(kSettleNs, [this] { on_loss_(); });
}

}  // namespace verbena::daemon
