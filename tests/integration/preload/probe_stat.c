// SPDX-License-Identifier: BSD-2-Clause
/* The stat family and access, by their new and their old names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "probe.h"

static bool is_node(const struct stat* st) {
  return S_ISCHR(st->st_mode) && st->st_rdev == makedev(231, 384);
}
static bool is_node64(const struct stat64* st) {
  return S_ISCHR(st->st_mode) && st->st_rdev == makedev(231, 384);
}
static bool is_node_x(const struct statx* st) {
  return S_ISCHR(st->stx_mode) && st->stx_rdev_major == 231 && st->stx_rdev_minor == 384;
}

/* Programs that were linked before glibc 2.33 call these; new programs cannot link with them. */
static void probe_old_names(int fd) {
  int (*xstat)(int, const char*, struct stat*) = dlsym(RTLD_DEFAULT, "__xstat");
  int (*lxstat)(int, const char*, struct stat*) = dlsym(RTLD_DEFAULT, "__lxstat");
  int (*fxstat)(int, int, struct stat*) = dlsym(RTLD_DEFAULT, "__fxstat");
  int (*fxstatat)(int, int, const char*, struct stat*, int) = dlsym(RTLD_DEFAULT, "__fxstatat");
  const int version = 1; /* the version of struct stat on x86-64 */
  struct stat st;
  CHECK_QUIET(xstat(version, NODE, &st) == 0 && is_node(&st));
  CHECK_QUIET(lxstat(version, NODE, &st) == 0 && is_node(&st));
  CHECK_QUIET(fxstat(version, fd, &st) == 0 && is_node(&st));
  CHECK_QUIET(fxstatat(version, AT_FDCWD, NODE, &st, 0) == 0 && is_node(&st));
}

static void probe_node_stat(void) {
  struct stat st;
  struct stat64 st64;
  struct statx stx;
  CHECK_QUIET(stat(NODE, &st) == 0 && is_node(&st));
  CHECK_QUIET(stat64(NODE, &st64) == 0 && is_node64(&st64));
  CHECK_QUIET(lstat(NODE, &st) == 0 && is_node(&st));
  CHECK_QUIET(lstat64(NODE, &st64) == 0 && is_node64(&st64));
  CHECK_QUIET(fstatat(AT_FDCWD, NODE, &st, 0) == 0 && is_node(&st));
  CHECK_QUIET(fstatat64(AT_FDCWD, NODE, &st64, 0) == 0 && is_node64(&st64));
  CHECK_QUIET(statx(AT_FDCWD, NODE, 0, STATX_ALL, &stx) == 0 && is_node_x(&stx));
  const int fd = open(NODE, O_RDWR | O_CLOEXEC);
  CHECK(fd >= 0);
  CHECK_QUIET(fstat(fd, &st) == 0 && is_node(&st));
  CHECK_QUIET(fstat64(fd, &st64) == 0 && is_node64(&st64));
  CHECK_QUIET(fstatat(fd, "", &st, AT_EMPTY_PATH) == 0 && is_node(&st));
  CHECK_QUIET(statx(fd, "", AT_EMPTY_PATH, STATX_ALL, &stx) == 0 && is_node_x(&stx));
  probe_old_names(fd);
  close(fd);
}

void probe_stat(void) {
  probe_node_stat();
  struct stat first;
  struct stat second;
  CHECK_QUIET(stat(DEVICE, &first) == 0 && S_ISDIR(first.st_mode));
  CHECK_QUIET(stat("/sys/class/infiniband", &second) == 0 && S_ISDIR(second.st_mode));
  CHECK(stat("/sys/class/infiniband/nobody0", &second) == -1 && errno == ENOENT);
  CHECK_QUIET(access(NODE_TYPE, R_OK) == 0);
  CHECK_QUIET(access(NODE, R_OK | W_OK) == 0);
  CHECK_QUIET(faccessat(AT_FDCWD, NODE_TYPE, R_OK, 0) == 0);
  CHECK_QUIET(euidaccess(NODE_TYPE, R_OK) == 0);
  CHECK_QUIET(eaccess(NODE_TYPE, R_OK) == 0);
  CHECK(access("/sys/class/infiniband/nobody0", F_OK) == -1 && errno == ENOENT);
  CHECK_QUIET(stat("/", &second) == 0);
}
