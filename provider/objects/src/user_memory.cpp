// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/objects/user_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>

#include "verbena/base/standard_streams.hpp"
#include "verbena/objects/populate.hpp"

namespace verbena::provider {
namespace {

// The part of an address that its own process uses.
constexpr std::uint64_t kWithin = UserMemory::kUserSpaceEnd - 1;
constexpr std::uint64_t kForeign = std::uint64_t{1} << 63;

constexpr std::uint64_t kPage = 4096;

// Up to this size pages are touched, as an adapter that pins them would do. For larger ranges the
// list of mappings is read.
constexpr std::uint64_t kTouchMax = 1u << 20;

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

// A line of /proc/self/maps.
struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  // of the first byte in its file
  unsigned major = 0;
  unsigned minor = 0;
  std::uint64_t inode = 0;  // 0: it has no file
  char rights[5] = {};
  char path[4096] = {};

  bool parse(const char* line) {
    path[0] = '\0';
    return std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %4095[^\n]",
                       &begin, &end, rights, &offset, &major, &minor, &inode, path) >= 7;
  }
};

// Returns whether the kernel says that access to this mapped page would be a SIGBUS. A page that
// cannot be read this way, such as a device's, does not count.
bool is_fault(std::uint64_t page) {
  char byte = 0;
  const iovec here{&byte, 1};
  const iovec there{pointer(page), 1};
  return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) < 0 && errno == EFAULT;
}

// Returns whether the file reaches this page of its mapping. A file that was cut off, or was always
// shorter, does not. If it does, it reaches all earlier pages as well, holes included.
bool is_within_file(const Mapping& mapping, std::uint64_t page) {
  if (mapping.inode == 0) return true;
  // This also fails with EFAULT if the page needs a huge page and there is none.
  if (::madvise(pointer(page), kPage, kPopulateRead) == 0) return true;
  if (errno == EFAULT) return false;
  // The kernel is older than 5.14, or the page is a device's.
  struct stat file {};
  const bool is_found = ::stat(mapping.path, &file) == 0 && file.st_ino == mapping.inode &&
                        major(file.st_dev) == mapping.major && minor(file.st_dev) == mapping.minor;
  if (is_found && !S_ISREG(file.st_mode)) return true;
  if (!is_found) return !is_fault(page);
  return mapping.offset + (page - mapping.begin) < static_cast<std::uint64_t>(file.st_size);
}

// Returns whether readable (and writable) mappings cover the range without a hole.
bool is_covered(std::uint64_t begin, std::uint64_t end, bool writable) {
  const int fd = beyond_streams(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  std::FILE* maps = fd < 0 ? nullptr : ::fdopen(fd, "r");
  if (maps == nullptr) return true;  // no descriptor left to look with
  char line[4400];
  Mapping mapping;
  std::uint64_t covered = begin;
  while (covered < end && std::fgets(line, sizeof line, maps) != nullptr) {
    if (!mapping.parse(line) || mapping.end <= covered) continue;
    if (mapping.begin > covered || mapping.rights[0] != 'r' ||
        (writable && mapping.rights[1] != 'w')) {
      break;
    }
    const std::uint64_t until = mapping.end < end ? mapping.end : end;
    if (!is_within_file(mapping, until - kPage)) break;
    covered = until;
  }
  std::fclose(maps);
  return covered >= end;
}

}  // namespace

std::uint64_t UserMemory::foreign_address(std::uint64_t address) noexcept {
  return kForeign | (address & kWithin);
}

bool UserMemory::read(void* to, std::uint64_t address, std::size_t length) noexcept {
  if ((address & kForeign) != 0) return foreign_.read(to, address & kWithin, length);
  const iovec local{to, length};
  const iovec remote{pointer(address), length};
  const ssize_t copied = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
  return copied == static_cast<ssize_t>(length);
}

bool UserMemory::write(std::uint64_t address, const void* from, std::size_t length) noexcept {
  if ((address & kForeign) != 0) return foreign_.write(address & kWithin, from, length);
  const iovec local{const_cast<void*>(from), length};
  const iovec remote{pointer(address), length};
  const ssize_t copied = ::process_vm_writev(::getpid(), &local, 1, &remote, 1, 0);
  return copied == static_cast<ssize_t>(length);
}

bool UserMemory::is_mapped(std::uint64_t address, std::size_t length, bool writable) noexcept {
  if (length == 0) return true;
  const std::uint64_t begin = address & ~(kPage - 1);
  const std::uint64_t end = (address + length + kPage - 1) & ~(kPage - 1);
  if (end <= begin) return false;
  const int saved = errno;
  bool is_there = false;
  bool is_known = false;
  if (end - begin <= kTouchMax) {
    is_there =
        ::madvise(pointer(begin), end - begin, writable ? kPopulateWrite : kPopulateRead) == 0;
    // EFAULT: access to one of the pages would be a SIGBUS, for example beyond the end of a file.
    is_known = is_there || errno == EFAULT;
  }
  // The list also serves kernels before 5.14, and pages that cannot be touched in advance.
  if (!is_known) is_there = is_covered(begin, end, writable);
  errno = saved;
  return is_there;
}

}  // namespace verbena::provider
