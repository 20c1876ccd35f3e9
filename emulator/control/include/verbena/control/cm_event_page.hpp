// SPDX-License-Identifier: BSD-2-Clause
// The events of one rdma_cm channel, in memory that the daemon shares with the process that opened
// the channel, so that fetching an event takes no request. The channel's descriptor tells only that
// there are events; the memory holds them. Each event is handed out once and in order: to the first
// reader that takes it, or to the daemon, which takes back the events of a destroyed ID. So readers
// and daemon know exactly which events were handed out, without a message for each.
//
//   daemon: push -> ready -announce-> announced -reader: take-> taken -copied-> done
//                     `--------------------^------daemon: take back-----------> done
//                                                             (done: its place is free again)
//
// Events that come together are announced together, by one message on the channel that belongs to
// the last of them. A reader takes the message off the channel before it takes that event; the
// other events need no message. So the channel is readable as long as there is an event, and a
// batch costs one wake-up.
//
// A ticket is one word: sequence number (48 bits), place (8), state (8). The tickets of the last
// kCmTickets events stand in a ring. The event itself stands in the first free place, so that a
// channel that is read in time needs one page of memory. No side waits for another: a reader that
// dies while it copies keeps its place, and the daemon trusts the memory only for whether an event
// was taken. A reader without the memory, or without a ticket in it, asks the daemon.
//
// Beside an event stand answers about the ID that it brings (cm_answers.hpp). They are valid as
// long as the ID's version is the one that came with them. The daemon raises the version before it
// carries out a command that changes the ID, whichever process sends it, and with each event about
// the ID.
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
// IDs that share a version only cost an unnecessary question. Each ID that a server is likely to
// have has its own version. A page of memory, which holds 1,024 versions, is allocated when one of
// them is first written.
inline constexpr std::size_t kCmVersions = 16384;

struct CmEventPlace {
  std::uint32_t id;
  std::uint32_t event_size;
  std::uint32_t answers_size;  // size of the answers behind the event
  std::uint32_t version;       // version of the ID for which the answers are valid
  std::array<std::uint8_t, kCmPlaceBytes> bytes;
};

struct CmEventPage {
  std::atomic<std::uint64_t> next;  // where readers look first
  std::array<std::atomic<std::uint64_t>, kCmTickets> tickets;
  std::array<std::atomic<std::uint32_t>, kCmVersions> versions;
  std::array<CmEventPlace, kCmTickets> places;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// An event as a reader gets it, with the answers (cm_answers.hpp) for `id`.
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

// Takes the next event of the page if it is of the wanted kind: an announced one if the caller has
// taken a message off the channel, otherwise one that is not announced. Any thread of any process.
bool take_cm_event(CmEventPage& page, bool holds_message, CmEventCopy& out);

// Returns the version for which answers about the ID are valid now.
std::uint32_t version_of(const CmEventPage& page, std::uint32_t id);

// Makes the answers invalid for every reader, before a command that changes the ID is sent. Returns
// false if they are of another version already. Any thread of any process.
bool outdate_answers(CmEventPage& page, std::uint32_t id, std::uint32_t version);

// The daemon's side of a page. One thread.
class CmEventWriter {
 public:
  using Sequence = std::uint64_t;

  // The page consists of zeros.
  explicit CmEventWriter(CmEventPage& page) : page_(page) {
    page_.next.store(next_, std::memory_order_release);
  }

  bool has_room();
  // Returns nothing if the page is full.
  std::optional<Sequence> push(std::uint32_t id, std::span<const std::uint8_t> event,
                               std::span<const std::uint8_t> answers);
  // Ties a message to the event; the caller sends it afterwards. Returns false if the event was
  // handed out before.
  bool announce(Sequence sequence);
  // Returns true if the event is the daemon's again, false if it was handed out before.
  bool take_back(Sequence sequence);
  bool is_handed_out(Sequence sequence) const;
  // Makes all earlier answers about the ID invalid.
  void outdate_answers(std::uint32_t id);
  void outdate_all_answers();

 private:
  // Moves an event that a reader may still take to another state. Returns false if a reader has
  // taken it.
  bool move(Sequence sequence, std::uint64_t to);
  // Frees the places of events that were handed out, oldest first. A reader that died while it
  // copied holds back the places behind its own; when all tickets are in use, readers ask the
  // daemon.
  void reclaim();

  CmEventPage& page_;
  Sequence next_ = 1;
  Sequence oldest_ = 1;                              // first event whose place is not free again
  std::array<std::uint8_t, kCmTickets> place_of_{};  // places by ticket
  std::bitset<kCmTickets> used_;
};

}  // namespace verbena::control
