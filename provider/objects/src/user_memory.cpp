// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/objects/user_memory.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include "page.hpp"
#include "verbena/objects/mapped_range.hpp"

namespace verbena::provider {
namespace {

// The part of an address that its own process uses.
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
  return is_mapped_range(begin, end, writable);
}

}  // namespace verbena::provider
