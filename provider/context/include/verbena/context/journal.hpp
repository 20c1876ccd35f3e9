// SPDX-License-Identifier: BSD-2-Clause
// What an engine tells the watchers of an emulator (control/journal_ring.hpp). Any thread may call
// this with any lock of the engine held: nothing here waits for the emulator or allocates.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "verbena/base/lock.hpp"
#include "verbena/context/daemon_client.hpp"
#include "verbena/control/journal_ring.hpp"
#include "verbena/queue/occurrence.hpp"

namespace verbena::provider {

class Journal {
 public:
  explicit Journal(DaemonClient& client);

  // Before this, nothing is told.
  void attach(control::JournalRing& ring) noexcept { ring_ = &ring; }
  void note(const queue::Occurrence& what) noexcept;
  void note_end(control::JournalKind kind) noexcept;

 private:
  void put(control::JournalRecord record, std::string_view text) noexcept;

  DaemonClient& client_;
  const std::vector<std::uint8_t> wake_;  // the message that wakes the emulator
  control::JournalRing* ring_ = nullptr;
  Lock lock_;
};

}  // namespace verbena::provider
