// SPDX-License-Identifier: BSD-2-Clause
#include "instance.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "verbena/control/runtime_dir.hpp"
#include "verbena/fabric/runtime_files.hpp"

namespace verbena::daemon {
namespace {

using control::fail;
using control::Outcome;
using control::UniqueFd;

constexpr int kBacklog = 1024;

Failure<control::Error> system_failure(const std::string& what) {
  const int code = errno;
  return fail(code, what + ": " + std::strerror(code));
}

Outcome<UniqueFd> open_lock(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return system_failure("cannot open " + path);
  return fd;
}

bool lock(const UniqueFd& fd, int how) {
  int rc = 0;
  do {
    rc = ::flock(fd.get(), how);
  } while (rc != 0 && errno == EINTR);
  return rc == 0;
}

// Returns false if an emulator that ended before this one has removed the file.
bool is_there(const UniqueFd& fd, const std::string& path) {
  struct stat ours {};
  struct stat there {};
  return ::fstat(fd.get(), &ours) == 0 && ::stat(path.c_str(), &there) == 0 &&
         ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

}  // namespace

Outcome<Instance> Instance::claim(const std::string& dir) {
  constexpr int kAttempts = 100;
  for (int attempt = 1;; ++attempt) {
    auto mine = try_to_claim(dir);
    const bool was_removed = !mine && (mine.error().code == ENOENT || mine.error().code == ESTALE);
    if (!was_removed || attempt == kAttempts) return mine;
  }
}

Outcome<Instance> Instance::try_to_claim(const std::string& dir) {
  const auto made = control::make_runtime_dir(dir);
  if (!made) return Failure<control::Error>{made.error()};
  Instance mine(dir);
  const std::string start_path = control::start_lock_path(dir);
  const std::string life_path = control::daemon_lock_path(dir);
  auto start = open_lock(start_path);
  if (!start) return Failure<control::Error>{start.error()};
  mine.start_ = std::move(*start);
  if (!lock(mine.start_, LOCK_EX)) return system_failure("cannot lock " + start_path);
  auto life = open_lock(life_path);
  if (!life) return Failure<control::Error>{life.error()};
  mine.life_ = std::move(*life);
  if (!lock(mine.life_, LOCK_EX | LOCK_NB)) {
    if (errno != EWOULDBLOCK) return system_failure("cannot lock " + life_path);
    return fail(EALREADY, "an emulator runs in " + dir + " already");
  }
  if (!is_there(mine.start_, start_path) || !is_there(mine.life_, life_path)) {
    return fail(ESTALE, "the runtime directory " + dir + " was removed again and again");
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  (void)!::ftruncate(mine.life_.get(), 0);
  (void)!::pwrite(mine.life_.get(), pid.data(), pid.size(), 0);
  return mine;
}

Outcome<UniqueFd> Instance::listen() {
  const std::string path = control::control_socket_path(dir_);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail(ENAMETOOLONG, "the path " + path + " is too long for a socket (" +
                                  std::to_string(sizeof address.sun_path - 1) +
                                  " bytes); set VERBENA_RUNTIME_DIR to a shorter one");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_failure("cannot make a socket");
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return system_failure("cannot replace " + path);
  }
  // bind() applies the mode to the inode that it makes, so the mode is right from the first moment.
  const mode_t before = ::umask(0177);
  const int bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::umask(before);
  if (bound != 0 || ::listen(fd.get(), kBacklog) != 0) {
    return system_failure("cannot listen at " + path);
  }
  (void)lock(start_, LOCK_UN);
  return fd;
}

Outcome<control::Done> Instance::restore() {
  if (has_directory()) return control::Done{};
  auto again = claim(dir_);
  if (!again) return Failure<control::Error>{again.error()};
  again->removes_files_ = removes_files_;
  *this = std::move(*again);
  return control::Done{};
}

bool Instance::has_directory() const { return is_there(life_, control::daemon_lock_path(dir_)); }

void Instance::begin_end() {
  if (!has_directory()) return;
  // A starter may hold the lock just now. It will find daemon.lock taken and try again.
  (void)lock(start_, LOCK_EX | LOCK_NB);
  ::unlink(control::control_socket_path(dir_).c_str());
}

void Instance::release() {
  if (removes_files_ && has_directory()) fabric::remove_runtime_files(dir_);
  life_.reset();
  start_.reset();
}

}  // namespace verbena::daemon
