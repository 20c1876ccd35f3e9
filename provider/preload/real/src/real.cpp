// SPDX-License-Identifier: BSD-2-Clause
#include "real/real.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <string_view>
#include <type_traits>

// Names inside the C library.
extern "C" {
extern void* __curbrk;
void* __sbrk(intptr_t change);
}

namespace verbena::preload {
namespace {

// True while this thread looks up a function. Initial-exec, because a preloaded library has its
// thread-local storage reserved.
__attribute__((tls_model("initial-exec"))) thread_local bool looking_up = false;

// The raw functions make the system calls that an allocator needs while the loader starts it.
int raw_open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(arguments, int) : 0;
  va_end(arguments);
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int raw_openat(int dirfd, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(arguments, int) : 0;
  va_end(arguments);
  return static_cast<int>(::syscall(SYS_openat, dirfd, path, flags, mode));
}
ssize_t raw_read(int fd, void* bytes, size_t size) { return ::syscall(SYS_read, fd, bytes, size); }
ssize_t raw_write(int fd, const void* bytes, size_t size) {
  return ::syscall(SYS_write, fd, bytes, size);
}

void* raw_mmap(void* at, size_t length, int rights, int flags, int fd, off_t offset) {
  return reinterpret_cast<void*>(::syscall(SYS_mmap, at, length, rights, flags, fd, offset));
}
int raw_munmap(void* at, size_t length) {
  return static_cast<int>(::syscall(SYS_munmap, at, length));
}
void* raw_mremap(void* at, size_t old_length, size_t length, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  void* const wanted = va_arg(arguments, void*);
  va_end(arguments);
  return reinterpret_cast<void*>(::syscall(SYS_mremap, at, old_length, length, flags, wanted));
}
int raw_shmdt(const void* at) { return static_cast<int>(::syscall(SYS_shmdt, at)); }
// __curbrk is where the C library keeps the end of the heap.
int raw_brk(void* end) {
  __curbrk = reinterpret_cast<void*>(::syscall(SYS_brk, end));
  if (__curbrk >= end) return 0;
  errno = ENOMEM;
  return -1;
}

// The C library has these functions since glibc 2.33. Before, its headers implemented them by
// __xstat.
static_assert(sizeof(struct stat) == sizeof(struct stat64));
int raw_stat(const char* path, struct stat* out) {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, out, 0));
}
int raw_lstat(const char* path, struct stat* out) {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW));
}
int raw_fstat(int fd, struct stat* out) { return static_cast<int>(::syscall(SYS_fstat, fd, out)); }
int raw_fstatat(int dirfd, const char* path, struct stat* out, int flags) {
  return static_cast<int>(::syscall(SYS_newfstatat, dirfd, path, out, flags));
}
void* raw_stat_function(std::string_view name) {
  if (name == "stat") return reinterpret_cast<void*>(raw_stat);
  if (name == "lstat") return reinterpret_cast<void*>(raw_lstat);
  if (name == "fstat") return reinterpret_cast<void*>(raw_fstat);
  if (name == "fstatat") return reinterpret_cast<void*>(raw_fstatat);
  return nullptr;
}

// Returns the first of these functions that has the type F, or null.
template <typename F, typename First, typename... Others>
constexpr F* first_of_type(First* first, Others*... others) {
  if constexpr (std::is_same_v<F, First>) {
    return first;
  } else if constexpr (sizeof...(others) != 0) {
    return first_of_type<F>(others...);
  } else {
    return nullptr;
  }
}

// Returns the raw function of this type, or null if the type needs none.
template <typename F>
constexpr F* raw_of() {
  return first_of_type<F>(raw_open, raw_openat, raw_read, raw_write, raw_mmap, raw_munmap,
                          raw_mremap, raw_shmdt, raw_brk, __sbrk);
}

}  // namespace

void* look_up_next(const char* name, void* raw) {
  if (looking_up && raw != nullptr) return raw;
  looking_up = true;
  void* found = ::dlsym(RTLD_NEXT, name);
  // The C library keeps some functions for old programs only; they have no default version any
  // more.
  if (found == nullptr) found = ::dlvsym(RTLD_NEXT, name, "GLIBC_2.2.5");
  if (found == nullptr) found = ::dlvsym(RTLD_NEXT, name, "GLIBC_2.4");
  if (found == nullptr) found = raw_stat_function(name);
  looking_up = false;
  return found != nullptr ? found : raw;
}

namespace real {
#define VERBENA_DEFINE_REAL(name, ...) \
  constinit Real<__VA_ARGS__> name(#name, raw_of<__VA_ARGS__>());
VERBENA_REAL_FUNCTIONS(VERBENA_DEFINE_REAL)
#undef VERBENA_DEFINE_REAL
#define VERBENA_DEFINE_REAL(name, ...) \
  constinit Real<__VA_ARGS__> name(#name, raw_of<__VA_ARGS__>(), true);
VERBENA_REAL_MEMORY_FUNCTIONS(VERBENA_DEFINE_REAL)
#undef VERBENA_DEFINE_REAL
}  // namespace real

void look_up_all_real_functions() {
#define VERBENA_LOOK_UP_REAL(name, ...) (void)real::name.look_up();
  VERBENA_REAL_FUNCTIONS(VERBENA_LOOK_UP_REAL)
  VERBENA_REAL_MEMORY_FUNCTIONS(VERBENA_LOOK_UP_REAL)
#undef VERBENA_LOOK_UP_REAL
}

}  // namespace verbena::preload
