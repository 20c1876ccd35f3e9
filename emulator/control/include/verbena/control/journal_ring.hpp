// SPDX-License-Identifier: BSD-2-Clause
// What has happened in a context, for those who watch the emulator (`verbena events`): a bounded
// ring in memory that the context and the daemon share, so that what a program tells costs it a
// copy and waits for nobody, and is there even if the program is killed right after it. What finds
// no room is counted.
//
//   context                             daemon
//      | put                              |
//      | JournalWritten, unless one is    |
//      | under way --------------------> -| quieten, take ... take
//
// Records go round and round, each padded to 8 bytes: JournalRecord, text. Neither side believes
// the other: positions and lengths are checked.
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
  kState = 1,    // of a queue pair: it is connected, or in an error state
  kFailure = 2,  // completions with an error
  kTimeout = 3,
  kClosed = 4,  // the program closes its device
  kExited = 5,  // it ends without that
};

struct JournalRecord {
  std::uint64_t time = 0;  // CLOCK_REALTIME, nanoseconds
  std::uint64_t wr_id = 0;
  IpAddress peer_address;  // unspecified: none
  std::uint32_t peer_qpn = 0;
  std::uint32_t qpn = 0;
  std::uint32_t count = 1;
  std::uint16_t text_size = 0;  // behind this
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

  // The context's side; one thread at a time. False: no room.
  bool put(JournalRecord record, std::string_view text) noexcept;
  // Whether nobody has woken the daemon since it looked: then the caller does, or says that it
  // could not.
  bool must_wake() noexcept { return !is_woken_.take(true); }
  void could_not_wake() noexcept { is_woken_.publish(false); }

 private:
  friend class JournalReader;

  // At a position, which only grows.
  void copy_in(std::uint64_t position, const void* from, std::size_t size) noexcept;
  void copy_out(std::uint64_t position, void* to, std::size_t size) const noexcept;

  Published<std::uint64_t> head_;  // the context's
  OwnedCounter lost_;
  Published<std::uint64_t> tail_;  // the daemon's
  Published<bool> is_woken_;
  std::array<std::uint8_t, kBytes> bytes_;  // not touched before it is used
};

// The daemon's side.
class JournalReader {
 public:
  // Before the first take(): what comes from now on wakes the daemon again.
  static void quieten(JournalRing& ring) noexcept { (void)ring.is_woken_.take(false); }
  // The next one. False: there is none, or the context does not keep to the form.
  bool take(JournalRing& ring, JournalRecord& record, std::string& text);
  // So many found no room since the last call.
  std::uint64_t take_lost(const JournalRing& ring) noexcept;

 private:
  std::uint64_t tail_ = 0;
  std::uint64_t lost_ = 0;
  bool is_broken_ = false;
};

}  // namespace verbena::control
