// SPDX-License-Identifier: BSD-2-Clause
// Wraps the stat family and access. Nodes look like character devices, by path and by descriptor.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <type_traits>

#include "nodes/node.hpp"
#include "paths/redirect.hpp"
#include "real/export.hpp"
#include "real/fd_table.hpp"
#include "real/real.hpp"
#include "real/section.hpp"

namespace verbena::preload {
namespace {

constexpr mode_t kNodeMode = S_IFCHR | 0666;

void show_device(struct stat& st, dev_t device) {
  st.st_mode = kNodeMode;
  st.st_rdev = device;
  st.st_size = 0;
  st.st_blocks = 0;
}

void show_device(struct statx& st, dev_t device) {
  st.stx_mode = kNodeMode;
  st.stx_rdev_major = ::major(device);
  st.stx_rdev_minor = ::minor(device);
  st.stx_size = 0;
  st.stx_blocks = 0;
}

mode_t mode_of(const struct stat& st) { return st.st_mode; }
mode_t mode_of(const struct statx& st) { return st.stx_mode; }

// Makes an open node look like a character device, after a successful stat of its descriptor. Only
// a socket can be a node, and few programs call stat on sockets. This also finds a node that came
// through execve or SCM_RIGHTS.
template <typename Stat>
void dress_descriptor(int fd, Stat& st) {
  if (!S_ISSOCK(mode_of(st)) || Section::is_inside()) return;
  const auto node = node_of_fd(fd);
  if (!node) return;
  if (fd_table::noted(fd) != fd_table::Kind::kNode) fd_table::mark(fd, fd_table::Kind::kNode);
  show_device(st, node->node_class->device_number(node->number));
}

// Makes a stat call by path; `pass_on(dirfd, path)` fills `out`.
template <typename Stat, typename PassOn>
int stat_at(int dirfd, const char* path, Stat* out, PassOn pass_on) {
  if (path != nullptr && *path == 0) [[unlikely]] {  // AT_EMPTY_PATH: the descriptor itself
    const int rc = pass_on(dirfd, path);
    if (rc == 0) dress_descriptor(dirfd, *out);
    return rc;
  }
  if (!concerns_us(path)) [[likely]]
    return pass_on(dirfd, path);
  const Redirect found = redirect(dirfd, path);
  if (found.is_none()) return pass_on(dirfd, path);
  const int rc = pass_on(AT_FDCWD, found.path.c_str());
  if (rc == 0 && found.is_node()) show_device(*out, device_number_of(found.name));
  return rc;
}

template <typename PassOn>
int stat_path(const char* path, struct stat* out, PassOn pass_on) {
  return stat_at(AT_FDCWD, path, out, [&](int, const char* p) { return pass_on(p); });
}

int dressed(int rc, int fd, struct stat* out) {
  if (rc == 0) dress_descriptor(fd, *out);
  return rc;
}

template <typename PassOn>
int access_at(int dirfd, const char* path, PassOn pass_on) {
  if (!concerns_us(path)) [[likely]]
    return pass_on(dirfd, path);
  const Redirect found = redirect(dirfd, path);
  if (found.is_none()) return pass_on(dirfd, path);
  return pass_on(AT_FDCWD, found.path.c_str());
}

}  // namespace
}  // namespace verbena::preload

using namespace verbena::preload;

VERBENA_EXPORT int stat(const char* path, struct stat* out) noexcept {
  return stat_path(path, out, [=](const char* p) { return real::stat(p, out); });
}
VERBENA_EXPORT int lstat(const char* path, struct stat* out) noexcept {
  return stat_path(path, out, [=](const char* p) { return real::lstat(p, out); });
}
VERBENA_EXPORT int fstat(int fd, struct stat* out) noexcept {
  return dressed(real::fstat(fd, out), fd, out);
}
VERBENA_EXPORT int fstatat(int dirfd, const char* path, struct stat* out, int flags) noexcept {
  return stat_at(dirfd, path, out,
                 [=](int d, const char* p) { return real::fstatat(d, p, out, flags); });
}

// Programs that were built before glibc 2.33 call these names.
VERBENA_EXPORT int __xstat(int version, const char* path, struct stat* out) noexcept {
  return stat_path(path, out, [=](const char* p) { return real::__xstat(version, p, out); });
}
VERBENA_EXPORT int __lxstat(int version, const char* path, struct stat* out) noexcept {
  return stat_path(path, out, [=](const char* p) { return real::__lxstat(version, p, out); });
}
VERBENA_EXPORT int __fxstat(int version, int fd, struct stat* out) noexcept {
  return dressed(real::__fxstat(version, fd, out), fd, out);
}
VERBENA_EXPORT int __fxstatat(int version, int dirfd, const char* path, struct stat* out,
                              int flags) noexcept {
  return stat_at(dirfd, path, out,
                 [=](int d, const char* p) { return real::__fxstatat(version, d, p, out, flags); });
}

// The two structures have the same form.
static_assert(sizeof(struct stat) == sizeof(struct stat64));
VERBENA_EXPORT int stat64(const char* path, struct stat64* out) noexcept VERBENA_ALIAS_OF(stat);
VERBENA_EXPORT int lstat64(const char* path, struct stat64* out) noexcept VERBENA_ALIAS_OF(lstat);
VERBENA_EXPORT int fstat64(int fd, struct stat64* out) noexcept VERBENA_ALIAS_OF(fstat);
VERBENA_EXPORT int fstatat64(int dirfd, const char* path, struct stat64* out, int flags) noexcept
    VERBENA_ALIAS_OF(fstatat);
VERBENA_EXPORT int __xstat64(int version, const char* path, struct stat64* out) noexcept
    VERBENA_ALIAS_OF(__xstat);
VERBENA_EXPORT int __lxstat64(int version, const char* path, struct stat64* out) noexcept
    VERBENA_ALIAS_OF(__lxstat);
VERBENA_EXPORT int __fxstat64(int version, int fd, struct stat64* out) noexcept
    VERBENA_ALIAS_OF(__fxstat);
VERBENA_EXPORT int __fxstatat64(int version, int dirfd, const char* path, struct stat64* out,
                                int flags) noexcept VERBENA_ALIAS_OF(__fxstatat);

VERBENA_EXPORT int statx(int dirfd, const char* path, int flags, unsigned mask,
                         struct statx* out) noexcept {
  return stat_at(dirfd, path, out,
                 [=](int d, const char* p) { return real::statx(d, p, flags, mask, out); });
}

VERBENA_EXPORT int access(const char* path, int mode) noexcept {
  return access_at(AT_FDCWD, path, [=](int, const char* p) { return real::access(p, mode); });
}
VERBENA_EXPORT int faccessat(int dirfd, const char* path, int mode, int flags) noexcept {
  return access_at(dirfd, path,
                   [=](int d, const char* p) { return real::faccessat(d, p, mode, flags); });
}
VERBENA_EXPORT int euidaccess(const char* path, int mode) noexcept {
  return access_at(AT_FDCWD, path, [=](int, const char* p) { return real::euidaccess(p, mode); });
}
VERBENA_EXPORT int eaccess(const char* path, int mode) noexcept VERBENA_ALIAS_OF(euidaccess);
