// SPDX-License-Identifier: BSD-2-Clause
// The events of one channel of rdma_cm, in memory that the daemon shares with who opened it, so
// that fetching one is no question. The channel's descriptor tells only that there are some; the
// memory says what they are. An event is handed out once, in order, by whoever takes it first: a
// reader, or the daemon, which takes back those of an ID that is destroyed. So both know for
// certain which events were handed out, without a word about each.
//
//   daemon: push -> ready -announce-> announced -reader: take-> taken -copied-> done
//                     `--------------------^------daemon: take back-----------> done
//                                                             (done: its place is free again)
//
// Those that come together are announced together: one message on the channel, which belongs to the
// last of them. Whoever takes that one takes the message off the channel first; the others need
// none. So the channel is readable as long as there is an event, and a batch costs one wake-up.
//
// A ticket is one word: sequence number (48 bits), place (8), state (8). Those of the last
// kCmTickets events stand in a ring; the events themselves in the first free place, so that a
// channel that is read in time needs one page. Nobody waits for anybody: a reader that dies while
// it copies keeps its place, and the daemon believes nothing of the memory but whether an event was
// taken. Without the memory, or without a ticket in it, a reader asks the daemon.
//
// Beside an event stand answers about the ID that it brings (cm_answers.hpp). They are true as long
// as the ID's version is the one that came with them: the daemon counts it on before it carries out
// a command that changes the ID, whichever process that comes from, and with each event about it.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace verbena::control {

inline constexpr std::size_t kCmTickets = 128;
inline constexpr std::size_t kCmPlaceBytes = 1536 - 16;
// IDs that share a version cost a question too many, no more. Each that is in use has its own, as
// far as a server may have: memory is taken for those that are written, a page for a thousand.
inline constexpr std::size_t kCmVersions = 16384;

struct CmEventPlace {
  std::uint32_t id;
  std::uint32_t event_size;
  std::uint32_t answers_size;  // after the event
  std::uint32_t version;       // with which they are true
  std::array<std::uint8_t, kCmPlaceBytes> bytes;
};

struct CmEventPage {
  std::atomic<std::uint64_t> next;  // where readers look first
  std::array<std::atomic<std::uint64_t>, kCmTickets> tickets;
  std::array<std::atomic<std::uint32_t>, kCmVersions> versions;
  std::array<CmEventPlace, kCmTickets> places;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// An event as it is handed out, with the answers of cm_answers.hpp for `id`.
struct CmEventCopy {
  std::uint32_t id = 0;
  std::uint32_t event_size = 0;
  std::uint32_t answers_size = 0;
  std::uint32_t version = 0;
  std::array<std::uint8_t, kCmPlaceBytes> bytes;

  std::span<const std::uint8_t> event() const { return std::span(bytes).first(event_size); }
  std::span<const std::uint8_t> answers() const {
    return std::span(bytes).subspan(event_size, answers_size);
  }
};

// The next event of the page, if it is of this kind: announced for who has taken a message off the
// channel, else one without. Any thread of any process.
bool take_cm_event(CmEventPage& page, bool holds_message, CmEventCopy& out);

// With which answers about the ID must have come to be true now.
std::uint32_t version_of(const CmEventPage& page, std::uint32_t id);

// Makes them untrue, for every reader, before a command that changes the ID is sent. False when
// they are of another version already. Any thread of any process.
bool outdate_answers(CmEventPage& page, std::uint32_t id, std::uint32_t version);

// The daemon's side of a page. One thread.
class CmEventWriter {
 public:
  using Sequence = std::uint64_t;

  // A page of zeros.
  explicit CmEventWriter(CmEventPage& page) : page_(page) {
    page_.next.store(next_, std::memory_order_release);
  }

  bool has_room();
  // Nothing when there is no room.
  std::optional<Sequence> push(std::uint32_t id, std::span<const std::uint8_t> event,
                               std::span<const std::uint8_t> answers);
  // Ties a message to the event, which is sent afterwards. False if it was handed out before.
  bool announce(Sequence sequence);
  // True if the event is the daemon's again; false if it was handed out before.
  bool take_back(Sequence sequence);
  bool is_handed_out(Sequence sequence) const;
  // Answers about the ID that were given up to now are not true any more.
  void outdate_answers(std::uint32_t id);
  void outdate_all_answers();

 private:
  // From where a reader may take it to another state. False if one has.
  bool move(Sequence sequence, std::uint64_t to);
  // Finds out which places are free again, those of the first events first: a reader that died
  // keeps what comes after it, which has no ticket much longer either.
  void reclaim();

  CmEventPage& page_;
  Sequence next_ = 1;
  Sequence oldest_ = 1;                              // whose place is not free again
  std::array<std::uint8_t, kCmTickets> place_of_{};  // by ticket
  std::bitset<kCmTickets> used_;
};

}  // namespace verbena::control
