// SPDX-License-Identifier: BSD-2-Clause
// Wraps calls that list and enter directories or resolve names in them.
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "paths/redirect.hpp"
#include "real/export.hpp"
#include "real/real.hpp"

namespace verbena::preload {
namespace {

// Makes the same call on the file that stands in for the path.
template <typename PassOn>
auto at_redirected(int dirfd, const char* path, PassOn pass_on) {
  if (!concerns_us(path)) [[likely]]
    return pass_on(dirfd, path);
  const Redirect found = redirect(dirfd, path);
  if (found.is_none()) return pass_on(dirfd, path);
  return pass_on(AT_FDCWD, found.path.c_str());
}

template <typename PassOn>
auto redirected(const char* path, PassOn pass_on) {
  return at_redirected(AT_FDCWD, path, [&](int, const char* p) { return pass_on(p); });
}

// glob() looks through directories inside the C library, past every wrapper. It lets its caller
// supply the functions to look with, so we supply ours. A caller's own functions stay.
void look_with_our_eyes(glob_t& glob) {
  glob.gl_opendir = [](const char* path) -> void* { return ::opendir(path); };
  glob.gl_readdir = [](void* dir) { return ::readdir(static_cast<DIR*>(dir)); };
  glob.gl_closedir = [](void* dir) { (void)::closedir(static_cast<DIR*>(dir)); };
  glob.gl_stat = [](const char* path, struct stat* out) { return ::stat(path, out); };
  glob.gl_lstat = [](const char* path, struct stat* out) { return ::lstat(path, out); };
}

}  // namespace
}  // namespace verbena::preload

using namespace verbena::preload;

VERBENA_EXPORT DIR* opendir(const char* path) {
  return redirected(path, [](const char* p) { return real::opendir(p); });
}

VERBENA_EXPORT int scandir(const char* path, dirent*** list, int (*filter)(const dirent*),
                           int (*compare)(const dirent**, const dirent**)) {
  return redirected(path, [=](const char* p) { return real::scandir(p, list, filter, compare); });
}

VERBENA_EXPORT int scandirat(int dirfd, const char* path, dirent*** list,
                             int (*filter)(const dirent*),
                             int (*compare)(const dirent**, const dirent**)) {
  return at_redirected(dirfd, path, [=](int d, const char* p) {
    return real::scandirat(d, p, list, filter, compare);
  });
}

VERBENA_EXPORT int glob(const char* pattern, int flags, int (*on_error)(const char*, int),
                        glob_t* result) noexcept {
  if (!concerns_us(pattern) || result == nullptr || (flags & GLOB_ALTDIRFUNC) != 0) {
    return real::glob(pattern, flags, on_error, result);
  }
  look_with_our_eyes(*result);
  const int rc = real::glob(pattern, flags | GLOB_ALTDIRFUNC, on_error, result);
  result->gl_flags &= ~GLOB_ALTDIRFUNC;
  return rc;
}

// The types have the same form by both names.
static_assert(sizeof(dirent) == sizeof(dirent64) && sizeof(glob_t) == sizeof(glob64_t));
VERBENA_EXPORT int scandir64(const char* path, dirent64*** list, int (*filter)(const dirent64*),
                             int (*compare)(const dirent64**, const dirent64**))
    VERBENA_ALIAS_OF(scandir);
VERBENA_EXPORT int scandirat64(int dirfd, const char* path, dirent64*** list,
                               int (*filter)(const dirent64*),
                               int (*compare)(const dirent64**, const dirent64**))
    VERBENA_ALIAS_OF(scandirat);
VERBENA_EXPORT int glob64(const char* pattern, int flags, int (*on_error)(const char*, int),
                          glob64_t* result) noexcept VERBENA_ALIAS_OF(glob);

VERBENA_EXPORT int chdir(const char* path) noexcept {
  return redirected(path, [](const char* p) { return real::chdir(p); });
}

VERBENA_EXPORT ssize_t readlink(const char* path, char* out, size_t size) noexcept {
  return redirected(path, [=](const char* p) { return real::readlink(p, out, size); });
}

VERBENA_EXPORT ssize_t readlinkat(int dirfd, const char* path, char* out, size_t size) noexcept {
  return at_redirected(dirfd, path,
                       [=](int d, const char* p) { return real::readlinkat(d, p, out, size); });
}

VERBENA_EXPORT ssize_t __readlink_chk(const char* path, char* out, size_t size, size_t room) {
  return redirected(path, [=](const char* p) { return real::__readlink_chk(p, out, size, room); });
}

VERBENA_EXPORT ssize_t __readlinkat_chk(int dirfd, const char* path, char* out, size_t size,
                                        size_t room) {
  return at_redirected(dirfd, path, [=](int d, const char* p) {
    return real::__readlinkat_chk(d, p, out, size, room);
  });
}

VERBENA_EXPORT char* realpath(const char* path, char* out) noexcept {
  return redirected(path, [=](const char* p) { return real::realpath(p, out); });
}

VERBENA_EXPORT char* __realpath_chk(const char* path, char* out, size_t room) {
  return redirected(path, [=](const char* p) { return real::__realpath_chk(p, out, room); });
}

VERBENA_EXPORT char* canonicalize_file_name(const char* path) noexcept {
  return redirected(path, [](const char* p) { return real::canonicalize_file_name(p); });
}

VERBENA_EXPORT ssize_t getxattr(const char* path, const char* name, void* value,
                                size_t size) noexcept {
  return redirected(path, [=](const char* p) { return real::getxattr(p, name, value, size); });
}

VERBENA_EXPORT ssize_t lgetxattr(const char* path, const char* name, void* value,
                                 size_t size) noexcept {
  return redirected(path, [=](const char* p) { return real::lgetxattr(p, name, value, size); });
}

VERBENA_EXPORT ssize_t listxattr(const char* path, char* list, size_t size) noexcept {
  return redirected(path, [=](const char* p) { return real::listxattr(p, list, size); });
}

VERBENA_EXPORT ssize_t llistxattr(const char* path, char* list, size_t size) noexcept {
  return redirected(path, [=](const char* p) { return real::llistxattr(p, list, size); });
}

VERBENA_EXPORT int inotify_add_watch(int fd, const char* path, uint32_t mask) noexcept {
  return redirected(path, [=](const char* p) { return real::inotify_add_watch(fd, p, mask); });
}
