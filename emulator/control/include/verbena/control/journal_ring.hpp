// SPDX-License-Identifier: BSD-2-Clause
// What has happened in a context, for programs that watch the emulator (`verbena events`). This is
// a bounded ring in memory that the context and the daemon share. To write an event costs the
// context a copy and never waits, and the event survives even if the process is killed right after.
// Events that do not fit are counted.
//
//   context                             daemon
//      | put                              |
//      | JournalWritten, unless one is    |
//      | under way --------------------> -| quieten, take ... take
//
// Records follow each other around the ring, each padded to 8 bytes: JournalRecord, text. Neither
// side trusts the other: both check positions and lengths.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "verbena/base/address.hpp"
#include "verbena/base/lock.hpp"

namespace verbena::control {

enum class JournalKind : std::uint8_t {
  kState = 1,    // a queue pair is connected, or in an error state
  kFailure = 2,  // completions with an error
  kTimeout = 3,
  kClosed = 4,  // the program closes its device
  kExited = 5,  // the program ends without closing its device
};

struct JournalRecord {
  std::uint64_t time = 0;  // CLOCK_REALTIME, nanoseconds
  std::uint64_t wr_id = 0;
  IpAddress peer_address;  // unspecified: none
  std::uint32_t peer_qpn = 0;
  std::uint32_t qpn = 0;
  std::uint32_t count = 1;
  std::uint16_t text_size = 0;  // size of the text behind this record
  JournalKind kind = JournalKind::kState;
  std::uint8_t qp_type = 0;  // as ibv_qp_type
  std::uint8_t state = 0;    // as ibv_qp_state
  std::uint8_t status = 0;   // as ibv_wc_status
  std::uint8_t has_wr_id = 0;
  std::array<char, 25> opcode{};
};

class JournalRing {
 public:
  static constexpr std::size_t kBytes = 48 * 1024;

  // Writes a record. Returns false if it does not fit. Called by the context, one thread at a time.
  bool put(JournalRecord record, std::string_view text) noexcept;
  // Returns true if the daemon has not been woken since it last looked. The caller then wakes it,
  // or calls could_not_wake().
  bool must_wake() noexcept { return !is_woken_.take(true); }
  void could_not_wake() noexcept { is_woken_.publish(false); }

 private:
  friend class JournalReader;

  // `position` only grows; its remainder is the place in the ring.
  void copy_in(std::uint64_t position, const void* from, std::size_t size) noexcept;
  void copy_out(std::uint64_t position, void* to, std::size_t size) const noexcept;

  Published<std::uint64_t> head_;  // written by the context
  OwnedCounter lost_;
  Published<std::uint64_t> tail_;  // written by the daemon
  Published<bool> is_woken_;
  std::array<std::uint8_t, kBytes> bytes_;  // not touched before it is used
};

// The daemon's side of a ring.
class JournalReader {
 public:
  // Makes records that come from now on wake the daemon again. Called before the first take().
  static void quieten(JournalRing& ring) noexcept { (void)ring.is_woken_.take(false); }
  // Takes the next record. Returns false if there is none or the context has broken the format.
  bool take(JournalRing& ring, JournalRecord& record, std::string& text);
  // Returns how many records did not fit since the last call.
  std::uint64_t take_lost(const JournalRing& ring) noexcept;

 private:
  std::uint64_t tail_ = 0;
  std::uint64_t lost_ = 0;
  bool is_broken_ = false;
};

}  // namespace verbena::control
