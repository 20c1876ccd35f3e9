#include "verbena/link/peer_memory.hpp"

#include <sys/uio.h>

#include <array>
#include <cerrno>

namespace verbena::link {
namespace {

constexpr std::size_t kTargetsMax = 3;

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

}  // namespace

std::unique_ptr<PeerMemory> PeerMemory::reach(const SharedRing& ring, std::uint32_t pid) {
  const std::uint64_t address = ring.writer_key_address();
  if (pid == 0 || address == 0) return nullptr;
  std::unique_ptr<PeerMemory> memory(new PeerMemory(pid, ring.key(), address));
  if (!memory->fetch({}, {})) return nullptr;
  return memory;
}

bool PeerMemory::fetch(std::span<const wire::FetchTarget> to,
                       std::span<const wire::MemoryRange> from) noexcept {
  std::uint64_t key = 0;
  std::array<iovec, 1 + kTargetsMax> local;
  std::array<iovec, 1 + wire::DirectPayload::kRangesMax> remote;
  if (is_lost_ || to.size() > kTargetsMax || from.size() >= remote.size()) return false;
  local[0] = {&key, sizeof key};
  remote[0] = {pointer(key_address_), sizeof key};
  std::size_t wanted = sizeof key;
  for (std::size_t i = 0; i < to.size(); ++i) {
    local[1 + i] = {to[i].bytes, to[i].length};
    wanted += to[i].length;
  }
  for (std::size_t i = 0; i < from.size(); ++i) {
    remote[1 + i] = {pointer(from[i].address), from[i].length};
  }
  const int saved = errno;
  const ssize_t copied = ::process_vm_readv(static_cast<pid_t>(pid_), local.data(), 1 + to.size(),
                                            remote.data(), 1 + from.size(), 0);
  errno = saved;
  is_lost_ = copied != static_cast<ssize_t>(wanted) || key != key_;
  return !is_lost_;
}

}  // namespace verbena::link
