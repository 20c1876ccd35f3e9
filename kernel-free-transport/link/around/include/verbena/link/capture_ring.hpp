// SPDX-License-Identifier: BSD-2-Clause
// Packets on their way to a capture: a bounded buffer in shared memory between a context, which
// records what it sends and receives, and the program that writes the file. To record is to copy,
// and never waits: what does not fit is left out and counted. A process that dies leaves whole
// records behind, which can still be read.
//
//     page 0            capacity bytes, which are used as a circle
//    +-----------------+--------------------------------------------------+
//    | positions,      | CaptureRecord, packet, padding to 8 | CaptureR.. |
//    | counters        |                                     |            |
//    +-----------------+--------------------------------------------------+
//
// Records of one ring are in the order of their times. A reader that merges several rings needs to
// know up to when it has seen everything. A writer announces that it records before it reads the
// clock (CaptureWriter::begin). So a reader that reads the clock, and then finds a ring at rest,
// knows that no older record will come from there.
//
// Neither side believes the other: positions and lengths are checked, the memory cannot shrink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "verbena/base/address.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/types.hpp"
#include "verbena/link/socket_error.hpp"

namespace verbena::link {

struct CaptureRecord {
  enum class Direction : std::uint8_t { kInbound = 1, kOutbound = 2 };
  // What an injected fault did to the packet. kRuled: a rule changed it, repeated it or held it
  // back. kWithheld: it repeats a packet that a rule still holds back.
  enum class Fate : std::uint8_t {
    kCarried = 0,
    kLost = 1,
    kDamaged = 2,
    kRuled = 3,
    kWithheld = 4,
  };

  TimeNs time = 0;  // CLOCK_MONOTONIC
  IpAddress source;
  IpAddress destination;
  std::uint32_t flow_label = 0;
  std::uint32_t sender = 0;  // the sending queue pair; 0: not known
  std::uint32_t length = 0;  // length of the packet, BTH .. pad
  std::uint32_t kept = 0;    // how many of its bytes follow: long packets are cut
  std::uint16_t source_port = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  Direction direction = Direction::kOutbound;
  Fate fate = Fate::kCarried;
};

class CaptureRing {
 public:
  // Pages of the ring are used only as far as the reader is behind.
  static constexpr std::size_t kDefaultCapacity = 16u << 20;

  // Creates a ring and returns its descriptor; `capacity` bytes of records, a power of two from 64
  // KiB on.
  static Result<int, SocketError> create(std::size_t capacity = kDefaultCapacity);
  // Maps a ring that create() made, in any process. Leaves `fd` open.
  static Result<CaptureRing, SocketError> map(int fd);

  CaptureRing(CaptureRing&& other) noexcept;
  CaptureRing& operator=(CaptureRing&& other) noexcept;
  ~CaptureRing();

 private:
  friend class CaptureWriter;
  friend class CaptureReader;
  struct Header;

  CaptureRing(void* memory, std::size_t capacity) : memory_(memory), capacity_(capacity) {}
  Header& header() const;
  // These two copy from position `begin` on in the memory, which is a circle.
  void copy_in(std::uint64_t begin, const void* from, std::size_t size) const;
  void copy_out(std::uint64_t begin, void* to, std::size_t size) const;

  void* memory_ = nullptr;
  std::size_t capacity_ = 0;
};

// One thread at a time.
class CaptureWriter {
 public:
  explicit CaptureWriter(CaptureRing ring) : ring_(std::move(ring)) {}

  // begin() comes before the clock is read for the records that follow, end() behind the last of
  // them.
  void begin() noexcept;
  void end() noexcept;
  // Records the packet, of which `record.kept` bytes are kept. Counts it as dropped if there is no
  // room.
  void put(const CaptureRecord& record, const std::uint8_t* packet) noexcept;

 private:
  bool has_room(std::uint64_t size) noexcept;
  void begin_anew_if_empty() noexcept;

  CaptureRing ring_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_seen_ = 0;
  std::uint64_t base_ = 0;  // the position at the beginning of the memory
  std::uint32_t activity_ = 0;
};

class CaptureReader {
 public:
  explicit CaptureReader(CaptureRing ring) : ring_(std::move(ring)) {}

  // Changes with each begin() and end(); odd between the two. To be called after a look at the
  // clock: records behind a later begin() have later times.
  std::uint32_t activity() const noexcept;
  // Returns the next record, the same one until pop(); null if there is none.
  const CaptureRecord* front() noexcept;
  // Copies the packet of front(), which has front()->kept bytes, into `room` of at least as many.
  void copy_packet(std::uint8_t* room) const noexcept;
  void pop() noexcept;

  // The numbers of packets that fitted in and that did not, since the ring was made.
  std::uint64_t recorded() const noexcept;
  std::uint64_t dropped() const noexcept;
  // Returns whether the writer broke the rules. No more records come from it then.
  bool is_broken() const noexcept { return is_broken_; }

 private:
  CaptureRing ring_;
  std::optional<CaptureRecord> front_;
  std::uint64_t tail_ = 0;
  std::uint64_t base_ = 0;  // the writer's base for the record in front
  bool is_broken_ = false;
};

}  // namespace verbena::link
