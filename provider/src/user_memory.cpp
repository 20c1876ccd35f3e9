#include "user_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "populate.hpp"

namespace verbena::provider {
namespace {

constexpr std::uint64_t kPage = 4096;
// Up to here pages are simply touched, as an adapter that pins them would; beyond, the list of
// mappings is read.
constexpr std::uint64_t kTouchMax = 1u << 20;

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

// Whether mappings without a hole, readable (and writable), cover the range.
bool is_covered(std::uint64_t begin, std::uint64_t end, bool writable) {
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return true;  // no descriptor left to look with
  char line[512];
  std::uint64_t covered = begin;
  while (covered < end && std::fgets(line, sizeof line, maps) != nullptr) {
    std::uint64_t from = 0, to = 0;
    char rights[5] = {};
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &from, &to, rights) != 3) continue;
    if (to <= covered) continue;
    if (from > covered || rights[0] != 'r' || (writable && rights[1] != 'w')) break;
    covered = to;
  }
  std::fclose(maps);
  return covered >= end;
}

// Of an address, what the process knows it by.
constexpr std::uint64_t kWithin = UserMemory::kUserSpaceEnd - 1;
constexpr std::uint64_t kForeign = std::uint64_t{1} << 63;

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
  bool mapped = false;
  if (end - begin <= kTouchMax &&
      ::madvise(pointer(begin), end - begin, writable ? kPopulateWrite : kPopulateRead) == 0) {
    mapped = true;
  } else {
    // Also for kernels before 5.14 and for what cannot be touched in advance.
    mapped = is_covered(begin, end, writable);
  }
  errno = saved;
  return mapped;
}

}  // namespace verbena::provider
