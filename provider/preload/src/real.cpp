#include "real.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>

namespace verbena::preload {
namespace {

// Per thread: inside a look-up. Initial-exec, since a preloaded library has its place reserved.
__attribute__((tls_model("initial-exec"))) thread_local bool looking_up = false;

// The system calls that an allocator makes when the loader makes it start.
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

// The raw twin of a function, for the few that need one.
template <typename F>
constexpr F* raw_of() {
  return nullptr;
}

template <>
constexpr int (*raw_of<int(const char*, int, ...)>())(const char*, int, ...) {
  return raw_open;
}
template <>
constexpr int (*raw_of<int(int, const char*, int, ...)>())(int, const char*, int, ...) {
  return raw_openat;
}
template <>
constexpr ssize_t (*raw_of<ssize_t(int, void*, size_t)>())(int, void*, size_t) {
  return raw_read;
}
template <>
constexpr ssize_t (*raw_of<ssize_t(int, const void*, size_t)>())(int, const void*, size_t) {
  return raw_write;
}
}  // namespace

void* look_up_next(const char* name, void* raw) {
  if (looking_up && raw != nullptr) return raw;
  looking_up = true;
  void* found = ::dlsym(RTLD_NEXT, name);
  // Kept by the C library for old programs only: not the default version any more.
  if (found == nullptr) found = ::dlvsym(RTLD_NEXT, name, "GLIBC_2.2.5");
  if (found == nullptr) found = ::dlvsym(RTLD_NEXT, name, "GLIBC_2.4");
  looking_up = false;
  return found != nullptr ? found : raw;
}

namespace real {
#define VERBENA_DEFINE_REAL(name, ...) \
  constinit Real<__VA_ARGS__> name(#name, raw_of<__VA_ARGS__>());
VERBENA_REAL_FUNCTIONS(VERBENA_DEFINE_REAL)
#undef VERBENA_DEFINE_REAL
}  // namespace real

void look_up_all_real_functions() {
#define VERBENA_LOOK_UP_REAL(name, ...) (void)real::name.get();
  VERBENA_REAL_FUNCTIONS(VERBENA_LOOK_UP_REAL)
#undef VERBENA_LOOK_UP_REAL
}

}  // namespace verbena::preload
