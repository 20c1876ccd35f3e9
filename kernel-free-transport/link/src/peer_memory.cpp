#include "verbena/link/peer_memory.hpp"

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
  if (!memory->fetch({}, {}, {})) return nullptr;
  return memory;
}

bool PeerMemory::fetch(std::span<const wire::FetchTarget> to,
                       std::span<const wire::MemoryRange> from,
                       const wire::Witness& witness) noexcept {
  if (is_lost_ || to.size() > kTargetsMax || from.size() > wire::DirectPayload::kRangesMax) {
    return false;
  }
  // In this order: whose memory it is, the payload, whether it still was what it was.
  std::uint64_t key = 0;
  std::uint64_t seen = 0;
  std::array<iovec, kTargetsMax + 2> local;
  std::array<iovec, wire::DirectPayload::kRangesMax + 2> remote;
  std::size_t here = 0;
  std::size_t there = 0;
  std::size_t wanted = sizeof key;
  local[here++] = {&key, sizeof key};
  remote[there++] = {pointer(key_address_), sizeof key};
  for (const wire::FetchTarget& target : to) {
    local[here++] = {target.bytes, target.length};
    wanted += target.length;
  }
  for (const wire::MemoryRange& range : from) {
    remote[there++] = {pointer(range.address), range.length};
  }
  if (witness.is_there()) {
    local[here++] = {&seen, sizeof seen};
    remote[there++] = {pointer(witness.address), sizeof seen};
    wanted += sizeof seen;
  }
  const bool is_whole = read({local.data(), here}, {remote.data(), there}) == wanted;
  if (is_whole && key == key_) {
    bytes_fetched_ += wanted - sizeof key;
    return !witness.is_there() || seen == witness.value;
  }
  // What was withdrawn may be unmapped, too.
  is_lost_ = !is_withdrawn(witness);
  return false;
}

bool PeerMemory::is_withdrawn(const wire::Witness& witness) const noexcept {
  if (!witness.is_there()) return false;
  std::uint64_t key = 0;
  std::uint64_t seen = 0;
  const std::array<iovec, 2> local = {{{&key, sizeof key}, {&seen, sizeof seen}}};
  const std::array<iovec, 2> remote = {
      {{pointer(key_address_), sizeof key}, {pointer(witness.address), sizeof seen}}};
  return read(local, remote) == sizeof key + sizeof seen && key == key_ && seen != witness.value;
}

std::size_t PeerMemory::read(std::span<const iovec> to,
                             std::span<const iovec> from) const noexcept {
  const int saved = errno;
  const ssize_t copied = ::process_vm_readv(static_cast<pid_t>(pid_), to.data(), to.size(),
                                            from.data(), from.size(), 0);
  errno = saved;
  return copied < 0 ? 0 : static_cast<std::size_t>(copied);
}

}  // namespace verbena::link
