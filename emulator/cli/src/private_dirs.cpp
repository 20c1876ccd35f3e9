// SPDX-License-Identifier: BSD-2-Clause
#include "private_dirs.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "verbena/control/runtime_dir.hpp"
#include "verbena/fabric/runtime_files.hpp"

namespace verbena::cli {
namespace {

using control::Error;
using control::fail;
using control::Outcome;
using control::UniqueFd;

constexpr std::string_view kPrefix = "private-";

// Locks a directory of ours. Returns none if the lock cannot be had, or not now (LOCK_NB).
UniqueFd lock_dir(const std::string& path, int how) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat is {};
  if (!fd || ::fstat(fd.get(), &is) != 0) return UniqueFd();
  if (is.st_uid != ::geteuid()) {
    errno = EPERM;
    return UniqueFd();
  }
  int rc = 0;
  do {
    rc = ::flock(fd.get(), how);
  } while (rc != 0 && errno == EINTR);
  return rc == 0 ? std::move(fd) : UniqueFd();
}

// Returns true if the directory holds a lock file of ours, which every emulator makes first.
bool is_marked(const std::string& dir) {
  for (const std::string& path : {control::daemon_lock_path(dir), control::start_lock_path(dir)}) {
    struct stat is {};
    if (::lstat(path.c_str(), &is) == 0 && S_ISREG(is.st_mode) && is.st_uid == ::geteuid()) {
      return true;
    }
  }
  return false;
}

// Leaves a directory that has no mark: somebody may have made it for something else, or a process
// is about to start an emulator in it.
void remove_if_left(const std::string& dir) {
  if (!is_marked(dir)) return;
  const UniqueFd unused = lock_dir(dir, LOCK_EX | LOCK_NB);
  if (!unused) return;
  // A process that is about to start an emulator here waits for the lock of the directory, and then
  // makes the directory anew.
  const UniqueFd life(
      ::open(control::daemon_lock_path(dir).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (life ? ::flock(life.get(), LOCK_EX | LOCK_NB) != 0 : errno != ENOENT) return;
  fabric::remove_runtime_files(dir);
}

std::vector<std::filesystem::path> private_dirs_in(const std::string& common) {
  std::vector<std::filesystem::path> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(common, ignored)) {
    if (entry.path().filename().string().starts_with(kPrefix)) found.push_back(entry.path());
  }
  return found;
}

// Returns true if an emulator has used this directory, or private ones have used directories in it.
bool is_common_dir(const std::string& dir) {
  return control::check_runtime_dir(dir) &&
         (is_marked(dir) || std::ranges::any_of(private_dirs_in(dir), is_marked));
}

// Returns what stands behind `private-`; empty: the directory has another name.
std::string name_in(const std::string& runtime_dir) {
  const std::string last = runtime_dir.substr(runtime_dir.find_last_of('/') + 1);
  return last.starts_with(kPrefix) ? last.substr(kPrefix.size()) : "";
}

std::string dir_in(const std::string& common, const std::string& name) {
  return common + "/" + std::string(kPrefix) + name;
}

// Removes what killed emulators have left. The caller holds the lock of the common directory.
void sweep(const std::string& common) {
  for (const std::filesystem::path& dir : private_dirs_in(common)) remove_if_left(dir);
}

}  // namespace

std::string common_dir() {
  std::string dir = control::runtime_dir_path();
  if (name_in(dir).empty()) return dir;
  const std::string parent = dir.substr(0, dir.find_last_of('/'));
  return is_common_dir(parent) ? parent : dir;
}

std::string private_dir_of(const std::string& name) { return dir_in(common_dir(), name); }

std::string command_that_ends(const std::string& runtime_dir) {
  const std::string name = name_in(runtime_dir);
  const bool is_private = !name.empty() && runtime_dir == private_dir_of(name);
  return !is_private ? "verbena down" : "verbena down --private " + name;
}

Outcome<PrivateDir> make_private_dir(const std::string& name) {
  const std::string common = common_dir();
  const auto made = control::make_runtime_dir(common);
  if (!made) return Failure<Error>{made.error()};
  // Keeps others from sweeping until the new directory has its own lock.
  const UniqueFd turn = lock_dir(common, LOCK_EX);
  sweep(common);
  PrivateDir dir{dir_in(common, name.empty() ? "run-XXXXXX" : name), {}, false};
  do {
    const bool is_new =
        name.empty() ? ::mkdtemp(dir.path.data()) != nullptr : ::mkdir(dir.path.c_str(), 0700) == 0;
    dir.was_there = !is_new && errno == EEXIST;
    if (is_new || dir.was_there) dir.lock = hold_private_dir(dir.path);
    if (dir.lock) return dir;
  } while (dir.was_there && errno == ENOENT);  // an emulator of this name has just ended
  const int code = errno;
  return fail(code, "cannot make the directory " + dir.path + ": " + std::strerror(code) +
                        "; set VERBENA_RUNTIME_DIR to a directory that you may write");
}

UniqueFd hold_private_dir(const std::string& path) { return lock_dir(path, LOCK_SH); }

void sweep_private_dirs() {
  const std::string common = common_dir();
  const UniqueFd turn = lock_dir(common, LOCK_EX);
  if (turn) sweep(common);
}

}  // namespace verbena::cli
