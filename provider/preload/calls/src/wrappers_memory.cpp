// SPDX-License-Identifier: BSD-2-Clause
// Wraps calls that unmap memory or map something in its place, for registered memory
// (mappings.hpp). An allocator makes these calls with its locks held and before any constructor has
// run. Therefore nothing is allocated here, and until our own constructor has run nothing is looked
// up: the system call is made directly.
//
// munmap is reported before the call, so that no other mapping can have taken the place by then.
// What the other calls remove is reported after the call, because they may fail. madvise is not
// wrapped: it discards contents, and the memory stays with its owner.
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <type_traits>

#include "calls/mappings.hpp"
#include "real/export.hpp"
#include "real/real.hpp"

namespace verbena::preload {
namespace {

// How earlier memory was lost if the kernel found its place free for a new mapping.
constexpr const char* kUnseen =
    "a call that was not seen, and its place was given to another mapping";

void* noting_map(void* at, std::size_t length, int flags) noexcept {
  if (at == MAP_FAILED || !mappings::are_watched()) [[likely]]
    return at;
  const bool is_fixed = (flags & MAP_FIXED) != 0;
  mappings::note_gone(at, length, is_fixed ? "mmap with MAP_FIXED" : kUnseen);
  return at;
}

void note_remapped(const void* from, std::size_t old_length, void* to, std::size_t new_length,
                   int flags) noexcept {
  const auto* const old = static_cast<const char*>(from);
  const auto* const now = static_cast<const char*>(to);
  if (to == from) {
    if (new_length < old_length)
      mappings::note_gone(old + new_length, old_length - new_length, "mremap");
    return;
  }
  // An old length of 0 makes another mapping of the same memory, and the first one stays.
  mappings::note_gone(old, old_length, "mremap");
  mappings::note_gone(now, new_length, (flags & MREMAP_FIXED) != 0 ? "mremap" : kUnseen);
}

// Reports [to, from) as gone, if the heap became smaller.
void note_break(const void* from, const void* to) noexcept {
  const auto begin = (reinterpret_cast<std::uintptr_t>(to) + 4095) & ~std::uintptr_t{4095};
  const auto end = reinterpret_cast<std::uintptr_t>(from);
  if (begin < end) mappings::note_gone(reinterpret_cast<const void*>(begin), end - begin, "brk");
}

}  // namespace
}  // namespace verbena::preload

using namespace verbena::preload;

VERBENA_EXPORT void* mmap(void* at, std::size_t length, int rights, int flags, int fd,
                          off_t offset) noexcept {
  return noting_map(real::mmap(at, length, rights, flags, fd, offset), length, flags);
}
static_assert(std::is_same_v<off_t, off64_t>);
VERBENA_EXPORT void* mmap64(void* at, std::size_t length, int rights, int flags, int fd,
                            off64_t offset) noexcept VERBENA_ALIAS_OF(mmap);

VERBENA_EXPORT int munmap(void* at, std::size_t length) noexcept {
  if (mappings::are_watched()) mappings::note_gone(at, length, "munmap");
  return real::munmap(at, length);
}

VERBENA_EXPORT void* mremap(void* at, std::size_t old_length, std::size_t new_length, int flags,
                            ...) noexcept {
  va_list arguments;
  va_start(arguments, flags);
  void* const wanted = (flags & MREMAP_FIXED) != 0 ? va_arg(arguments, void*) : nullptr;
  va_end(arguments);
  void* const to = real::mremap(at, old_length, new_length, flags, wanted);
  if (to != MAP_FAILED && mappings::are_watched()) {
    note_remapped(at, old_length, to, new_length, flags);
  }
  return to;
}

VERBENA_EXPORT void* shmat(int id, const void* wanted, int flags) noexcept {
  void* const at = real::shmat(id, wanted, flags);
  if ((flags & SHM_REMAP) != 0 && mappings::are_watched() && at != reinterpret_cast<void*>(-1)) {
    mappings::note_gone(at, mappings::length_of(at), "shmat with SHM_REMAP");
  }
  return at;
}

VERBENA_EXPORT int shmdt(const void* at) noexcept {
  const std::size_t length = mappings::are_watched() ? mappings::length_of(at) : 0;
  const int rc = real::shmdt(at);
  if (rc == 0 && length != 0) mappings::note_gone(at, length, "shmdt");
  return rc;
}

VERBENA_EXPORT int brk(void* end) noexcept {
  if (!mappings::are_watched()) return real::brk(end);
  void* const before = real::sbrk(0);
  const int rc = real::brk(end);
  if (rc == 0) note_break(before, end);
  return rc;
}

VERBENA_EXPORT void* sbrk(std::intptr_t change) noexcept {
  void* const before = real::sbrk(change);
  if (change < 0 && before != reinterpret_cast<void*>(-1) && mappings::are_watched()) {
    note_break(before, static_cast<char*>(before) + change);
  }
  return before;
}
