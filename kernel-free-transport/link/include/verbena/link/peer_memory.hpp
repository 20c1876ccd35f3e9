// The memory of the process at the writing end of a ring, for payloads that it leaves where they are
// (wire/direct.hpp). Owned by the reading end, which uses it under its receive lock.
//
// The emulator says which process that is, and whether the system lets us read it is tried, not
// assumed: other users, other pid namespaces, Yama, seccomp and processes that are not dumpable say
// no. What is read to try it is the ring's own key, where the writer says that it has the ring
// mapped; the same word is read again together with every payload, so that another process that got
// the number of a dead one is never taken for it. A writer that lies about its addresses hands out
// its own memory or nothing. It may keep us waiting for a page; but whoever we may read in this way
// may also stop us.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "verbena/link/shared_ring.hpp"
#include "verbena/wire/direct.hpp"

namespace verbena::link {

class PeerMemory final : public wire::SenderMemory {
 public:
  // Null: the writer does not want it, or the system. `ring` outlives the result, wherever it moves.
  static std::unique_ptr<PeerMemory> reach(const SharedRing& ring, std::uint32_t pid);

  // After the first failure nothing is fetched any more; that memory was withdrawn is none.
  bool fetch(std::span<const wire::FetchTarget> to, std::span<const wire::MemoryRange> from,
             const wire::Witness& witness) noexcept override;
  bool is_lost() const noexcept { return is_lost_; }
  // Of all payloads together.
  std::uint64_t bytes_fetched() const noexcept { return bytes_fetched_; }

 private:
  PeerMemory(std::uint32_t pid, std::uint64_t key, std::uint64_t key_address)
      : pid_(pid), key_(key), key_address_(key_address) {}

  bool is_withdrawn(const wire::Witness& witness) const noexcept;
  // How many bytes were read.
  std::size_t read(std::span<const iovec> to, std::span<const iovec> from) const noexcept;

  std::uint32_t pid_;
  std::uint64_t key_;
  std::uint64_t key_address_;  // over there
  bool is_lost_ = false;
  std::uint64_t bytes_fetched_ = 0;
};

}  // namespace verbena::link
