// SPDX-License-Identifier: BSD-2-Clause
// The functions that we wrap, as the next library in line defines them (RTLD_NEXT), so that
// sanitizers and other preloaded libraries keep their place. Each function is looked up at its
// first use, because constructors of other libraries run before ours. All of them are looked up
// again when this library is loaded, so that later calls do not need the loader's lock.
#pragma once

#include <dirent.h>
#include <glob.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>

#include "real/export.hpp"

namespace verbena::preload {

// Returns `raw`, which may be null, when no library has the function.
void* look_up_next(const char* name, void* raw);

template <typename F>
class Real {
 public:
  // `raw` is called while the loader, which looks up the real function, calls us again. If `waits`,
  // `raw` is also called until this library is loaded, and nothing is looked up before.
  constexpr explicit Real(const char* name, F* raw = nullptr, bool waits = false)
      : name_(name), raw_(raw), waits_(waits) {}

  F* get() {
    F* known = pointer_.load(std::memory_order_acquire);
    if (known != nullptr) [[likely]]
      return known;
    return waits_ ? raw_ : look_up();
  }
  F* look_up() {
    auto* found = reinterpret_cast<F*>(look_up_next(name_, reinterpret_cast<void*>(raw_)));
    if (found != raw_) pointer_.store(found, std::memory_order_release);
    return found;
  }
  template <typename... A>
  VERBENA_NOTHING_TO_CLEAN_UP auto operator()(A... arguments) {
    return get()(arguments...);
  }

 private:
  const char* name_;
  F* raw_;
  bool waits_;
  std::atomic<F*> pointer_{nullptr};
};

// X(name, signature)
#define VERBENA_REAL_FUNCTIONS(X)                                                                 \
  X(open, int(const char*, int, ...))                                                             \
  X(openat, int(int, const char*, int, ...))                                                      \
  X(__open_2, int(const char*, int))                                                              \
  X(__openat_2, int(int, const char*, int))                                                       \
  X(fopen, FILE*(const char*, const char*))                                                       \
  X(freopen, FILE*(const char*, const char*, FILE*))                                              \
  X(opendir, DIR*(const char*))                                                                   \
  X(scandir,                                                                                      \
    int(const char*, dirent***, int (*)(const dirent*), int (*)(const dirent**, const dirent**))) \
  X(scandirat, int(int, const char*, dirent***, int (*)(const dirent*),                           \
                   int (*)(const dirent**, const dirent**)))                                      \
  X(glob, int(const char*, int, int (*)(const char*, int), glob_t*))                              \
  X(chdir, int(const char*))                                                                      \
  X(stat, int(const char*, struct stat*))                                                         \
  X(lstat, int(const char*, struct stat*))                                                        \
  X(fstat, int(int, struct stat*))                                                                \
  X(fstatat, int(int, const char*, struct stat*, int))                                            \
  X(__xstat, int(int, const char*, struct stat*))                                                 \
  X(__lxstat, int(int, const char*, struct stat*))                                                \
  X(__fxstat, int(int, int, struct stat*))                                                        \
  X(__fxstatat, int(int, int, const char*, struct stat*, int))                                    \
  X(statx, int(int, const char*, int, unsigned, struct statx*))                                   \
  X(access, int(const char*, int))                                                                \
  X(faccessat, int(int, const char*, int, int))                                                   \
  X(euidaccess, int(const char*, int))                                                            \
  X(readlink, ssize_t(const char*, char*, size_t))                                                \
  X(readlinkat, ssize_t(int, const char*, char*, size_t))                                         \
  X(__readlink_chk, ssize_t(const char*, char*, size_t, size_t))                                  \
  X(__readlinkat_chk, ssize_t(int, const char*, char*, size_t, size_t))                           \
  X(realpath, char*(const char*, char*))                                                          \
  X(__realpath_chk, char*(const char*, char*, size_t))                                            \
  X(canonicalize_file_name, char*(const char*))                                                   \
  X(getxattr, ssize_t(const char*, const char*, void*, size_t))                                   \
  X(lgetxattr, ssize_t(const char*, const char*, void*, size_t))                                  \
  X(listxattr, ssize_t(const char*, char*, size_t))                                               \
  X(llistxattr, ssize_t(const char*, char*, size_t))                                              \
  X(inotify_add_watch, int(int, const char*, uint32_t))                                           \
  X(read, ssize_t(int, void*, size_t))                                                            \
  X(write, ssize_t(int, const void*, size_t))                                                     \
  X(ioctl, int(int, unsigned long, ...))                                                          \
  X(dup, int(int))                                                                                \
  X(dup2, int(int, int))                                                                          \
  X(dup3, int(int, int, int))                                                                     \
  X(fcntl, int(int, int, ...))                                                                    \
  X(socket, int(int, int, int))                                                                   \
  X(send, ssize_t(int, const void*, size_t, int))                                                 \
  X(sendto, ssize_t(int, const void*, size_t, int, const sockaddr*, socklen_t))                   \
  X(sendmsg, ssize_t(int, const msghdr*, int))                                                    \
  X(recv, ssize_t(int, void*, size_t, int))                                                       \
  X(recvfrom, ssize_t(int, void*, size_t, int, sockaddr*, socklen_t*))                            \
  X(__recvfrom_chk, ssize_t(int, void*, size_t, size_t, int, sockaddr*, socklen_t*))              \
  X(recvmsg, ssize_t(int, msghdr*, int))                                                          \
  X(sigaction, int(int, const struct sigaction*, struct sigaction*))                              \
  X(signal, sighandler_t(int, sighandler_t))                                                      \
  X(__sysv_signal, sighandler_t(int, sighandler_t))                                               \
  X(sigprocmask, int(int, const sigset_t*, sigset_t*))                                            \
  X(pthread_sigmask, int(int, const sigset_t*, sigset_t*))                                        \
  X(longjmp, void(__jmp_buf_tag*, int))                                                           \
  X(__longjmp_chk, void(__jmp_buf_tag*, int))

// Allocators get memory by these functions before any constructor has run and with their locks
// held, so that a look-up could end in the allocator again. Until this library is loaded the system
// call is made directly.
#define VERBENA_REAL_MEMORY_FUNCTIONS(X)              \
  X(mmap, void*(void*, size_t, int, int, int, off_t)) \
  X(munmap, int(void*, size_t))                       \
  X(mremap, void*(void*, size_t, size_t, int, ...))   \
  X(shmat, void*(int, const void*, int))              \
  X(shmdt, int(const void*))                          \
  X(brk, int(void*))                                  \
  X(sbrk, void*(intptr_t))

namespace real {
#define VERBENA_DECLARE_REAL(name, ...) extern Real<__VA_ARGS__> name;
VERBENA_REAL_FUNCTIONS(VERBENA_DECLARE_REAL)
VERBENA_REAL_MEMORY_FUNCTIONS(VERBENA_DECLARE_REAL)
#undef VERBENA_DECLARE_REAL
}  // namespace real

void look_up_all_real_functions();

}  // namespace verbena::preload
