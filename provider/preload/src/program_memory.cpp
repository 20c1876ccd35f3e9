#include "program_memory.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace verbena::preload {

bool copy_in(std::span<std::uint8_t> to, std::uint64_t address) {
  iovec local{to.data(), to.size()};
  iovec remote{reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), to.size()};
  const ssize_t n = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
  if (n == static_cast<ssize_t>(to.size())) return true;
  if (n >= 0 || errno == EFAULT || address == 0) return false;
  std::memcpy(to.data(), remote.iov_base, to.size());  // a sandbox forbids the careful way
  return true;
}

bool copy_out(std::uint64_t address, std::span<const std::uint8_t> from) {
  if (from.empty()) return true;
  iovec local{const_cast<std::uint8_t*>(from.data()), from.size()};
  iovec remote{reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), from.size()};
  const ssize_t n = ::process_vm_writev(::getpid(), &local, 1, &remote, 1, 0);
  if (n == static_cast<ssize_t>(from.size())) return true;
  if (n >= 0 || errno == EFAULT || address == 0) return false;
  std::memcpy(remote.iov_base, from.data(), from.size());
  return true;
}

}  // namespace verbena::preload
