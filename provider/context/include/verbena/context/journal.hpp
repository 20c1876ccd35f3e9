// SPDX-License-Identifier: BSD-2-Clause
// What an engine tells to those who watch the emulator (control/journal_ring.hpp). Any thread, with
// any lock of the engine held: nothing here waits or allocates.
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

  // Null: nothing is told.
  void attach(control::JournalRing* ring) noexcept { ring_ = ring; }
  void note(const queue::Occurrence& what) noexcept;
  void note_end(control::JournalKind kind) noexcept;

 private:
  void put(control::JournalRecord record, std::string_view text) noexcept;

  DaemonClient& client_;
  const std::vector<std::uint8_t> wake_;  // the message that does
  control::JournalRing* ring_ = nullptr;
  Lock lock_;
};

}  // namespace verbena::provider
