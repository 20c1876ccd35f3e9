// SPDX-License-Identifier: BSD-2-Clause
// Wraps open, openat and fopen in all their spellings.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <string>

#include "nodes/node.hpp"
#include "paths/device_files.hpp"
#include "paths/redirect.hpp"
#include "real/export.hpp"
#include "real/real.hpp"
#include "real/section.hpp"

namespace verbena::preload {
namespace {

// Reads a third argument only if there must be one, as the C library does.
#define VERBENA_MODE_ARGUMENT(flags)                                    \
  mode_t mode = 0;                                                      \
  if (((flags)&O_CREAT) != 0 || ((flags)&__O_TMPFILE) == __O_TMPFILE) { \
    va_list arguments;                                                  \
    va_start(arguments, flags);                                         \
    mode = static_cast<mode_t>(va_arg(arguments, int));                 \
    va_end(arguments);                                                  \
  }

// How a program opens a file, apart from reading.
struct Wish {
  bool writes = false;
  bool makes = false;
  bool makes_only = false;  // the file must not exist yet (O_EXCL)

  static Wish of(int flags) {
    return {(flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0, (flags & O_CREAT) != 0,
            (flags & O_EXCL) != 0};
  }
  static Wish of(const char* mode) {
    const auto has = [mode](const char* letters) { return std::strpbrk(mode, letters) != nullptr; };
    return {has("wa+"), has("wa"), has("x")};
  }
};

// Returns the errno with which sysfs refuses to open a file like this, because it lets no user make
// files, not even root. Returns 0 if the file exists or is only read. `path` is the path in the
// shadow. Keeps errno.
int refusal_of(const Wish& wish, std::string& path) {
  if (!wish.writes && !wish.makes) return 0;
  const Section section;
  struct stat st {};
  if (real::stat(path.c_str(), &st) == 0) {
    if (wish.makes && wish.makes_only) return EEXIST;
    if (S_ISDIR(st.st_mode)) return EISDIR;
    return wish.writes ? EACCES : 0;
  }
  if (!wish.makes) return 0;
  path.resize(path.rfind('/'));
  return real::stat(path.c_str(), &st) == 0 ? EACCES : ENOENT;
}

// Opens a path that is not ours, or a file that only the plugin knows. Keeps errno on success.
template <typename PassOn>
int open_elsewhere(int dirfd, const char* path, int flags, PassOn pass_on) {
  const int before = errno;
  int opened = pass_on(dirfd, path);
  if (opened >= 0) return opened;
  Section section;
  try {
    opened = open_device_file(path, flags);
  } catch (...) {
    return -1;  // out of memory
  }
  if (opened >= 0) section.set_errno(before);
  return opened;
}

// Opens the file that stands in for `path`. `pass_on(dirfd, path)` calls the next library.
template <typename PassOn>
int open_at(int dirfd, const char* path, int flags, PassOn pass_on) {
  if (!concerns_us(path)) [[likely]]
    return pass_on(dirfd, path);
  Redirect found = redirect(dirfd, path, Purpose::kRead);
  if (found.is_none()) return open_elsewhere(dirfd, path, flags, pass_on);
  if (found.is_node() && (flags & O_PATH) == 0) return open_node(found.name, flags);
  if (found.kind != Redirect::Kind::kElsewhere) {
    if (const int error = refusal_of(Wish::of(flags), found.path); error != 0) {
      errno = error;
      return -1;
    }
  }
  return pass_on(AT_FDCWD, found.path.c_str());
}

// Opens for stdio, which makes no sense on a node: it gets the empty file that stands in for it.
template <typename PassOn>
FILE* fopen_at(const char* path, const char* mode, PassOn pass_on) {
  if (!concerns_us(path)) [[likely]]
    return pass_on(path);
  Redirect found = redirect(AT_FDCWD, path, Purpose::kRead);
  if (found.is_none()) return pass_on(path);
  if (found.kind != Redirect::Kind::kElsewhere) {
    if (const int error = refusal_of(Wish::of(mode), found.path); error != 0) {
      errno = error;
      return nullptr;
    }
  }
  return pass_on(found.path.c_str());
}

}  // namespace
}  // namespace verbena::preload

using namespace verbena::preload;

VERBENA_EXPORT int open(const char* path, int flags, ...) {
  VERBENA_MODE_ARGUMENT(flags)
  return open_at(AT_FDCWD, path, flags,
                 [=](int, const char* p) { return real::open(p, flags, mode); });
}

VERBENA_EXPORT int openat(int dirfd, const char* path, int flags, ...) {
  VERBENA_MODE_ARGUMENT(flags)
  return open_at(dirfd, path, flags,
                 [=](int d, const char* p) { return real::openat(d, p, flags, mode); });
}

// The fortified forms have no mode.
// NOLINTBEGIN(bugprone-reserved-identifier): these are names of the C library.
VERBENA_EXPORT int __open_2(const char* path, int flags) {
  return open_at(AT_FDCWD, path, flags,
                 [=](int, const char* p) { return real::__open_2(p, flags); });
}

VERBENA_EXPORT int __openat_2(int dirfd, const char* path, int flags) {
  return open_at(dirfd, path, flags,
                 [=](int d, const char* p) { return real::__openat_2(d, p, flags); });
}

VERBENA_EXPORT FILE* fopen(const char* path, const char* mode) {
  return fopen_at(path, mode, [=](const char* p) { return real::fopen(p, mode); });
}

VERBENA_EXPORT FILE* freopen(const char* path, const char* mode, FILE* stream) {
  return fopen_at(path, mode, [=](const char* p) { return real::freopen(p, mode, stream); });
}

// All files are opened as large ones.
static_assert(sizeof(off_t) == sizeof(off64_t));
VERBENA_EXPORT int open64(const char* path, int flags, ...) VERBENA_ALIAS_OF(open);
VERBENA_EXPORT int openat64(int dirfd, const char* path, int flags, ...) VERBENA_ALIAS_OF(openat);
VERBENA_EXPORT int __open64_2(const char* path, int flags) VERBENA_ALIAS_OF(__open_2);
VERBENA_EXPORT int __openat64_2(int dirfd, const char* path, int flags)
    VERBENA_ALIAS_OF(__openat_2);
VERBENA_EXPORT FILE* fopen64(const char* path, const char* mode) VERBENA_ALIAS_OF(fopen);
VERBENA_EXPORT FILE* freopen64(const char* path, const char* mode, FILE* stream)
    VERBENA_ALIAS_OF(freopen);
// NOLINTEND(bugprone-reserved-identifier)
