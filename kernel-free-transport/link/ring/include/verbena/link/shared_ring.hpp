// SPDX-License-Identifier: BSD-2-Clause
// A ring of packets in shared memory from one context to another on the same host, one direction.
// The emulator creates it (a sealed memfd) and passes its descriptor to both; each maps it and
// closes the descriptor. One writer at a time, one reader at a time, no lock between the two.
//
//   page 0   what() | key                            written once by the creator
//            tail, reader's state                    written by the reader
//            closed                                  written by anyone, once
//            which packets may stand for several     written by the reader
//   page 1.. records, each from a 64-byte line on:
//            +----------------------+-------------+--------------------+-------------+
//            | tag (48) length (16) | fields (64) | packet, BTH .. pad | ack (64)? |
//            +----------------------+-------------+--------------------+-------------+
//            | tag (48)  65535 (16) | where the next record did not fit: it is at the beginning
//            +----------------------+
//
// The reader looks only at the word where the next record begins: a small packet costs one cache
// line. The tag is a keyed function of the record's position, which never repeats, so neither what
// an earlier round left there nor a payload that somebody chose looks like a record.
//
// Neither side trusts the other: each keeps its own position, size and key, copies a length before
// it checks and uses it, and copies a packet's headers out before anyone looks at them. A long
// payload stays where it is until it is copied to where it belongs; who changes it meanwhile has
// sent something else. What breaks the rules ends this ring and nothing else: it then counts as
// closed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "verbena/base/result.hpp"
#include "verbena/link/socket_error.hpp"
#include "verbena/wire/datagram.hpp"

namespace verbena::link {

// Which packets may stand for several (wire/datagram.hpp). What takes merged ones takes piggybacked
// ACKs.
enum class Packs : std::uint32_t { kMerged = 0, kNothing = 1 };

// The memory. Movable; unmaps at its end. Not inherited by fork(): in a child it is not there, so
// there close() and the destructor do nothing, and all else is forbidden.
class SharedRing {
 public:
  // A receiver that is kept from its processor for a while loses no datagrams: 512 of 1 KiB.
  static constexpr std::size_t kDefaultCapacity = 1u << 20;

  // A new ring's descriptor; `capacity` bytes of records, a power of two from 64 KiB on.
  static Result<int, SocketError> create(std::size_t capacity = kDefaultCapacity);
  // Maps a ring that create() made, in whatever process. Leaves `fd` open.
  static Result<SharedRing, SocketError> map(int fd);

  SharedRing(SharedRing&& other) noexcept;
  SharedRing& operator=(SharedRing&& other) noexcept;
  ~SharedRing();

  // How many packets of this size (BTH .. pad) a ring of the default capacity holds.
  static std::uint32_t packets_held(std::size_t packet_bytes) noexcept;

  // Ends the ring for both sides: when a context closes, and by the emulator when one has died.
  void close() noexcept;
  bool is_closed() const noexcept;

  // The reader says which packets may stand for several, and may change its mind; at first, merged
  // ones.
  void set_packs(Packs packs) noexcept;
  Packs packs() const noexcept;

 private:
  friend class RingWriter;
  friend class RingReader;
  struct Header;

  SharedRing(void* memory, std::size_t capacity);
  bool is_mapped() const noexcept;
  Header& header() const;
  std::uint64_t offset_of(std::uint64_t position) const;
  std::uint8_t* record_at(std::uint64_t position) const;
  std::uint64_t tag_of(std::uint64_t position) const;

  void* memory_ = nullptr;
  std::size_t capacity_ = 0;
  std::uint64_t key_ = 0;
  int process_ = 0;  // that mapped it
};

class RingWriter {
 public:
  explicit RingWriter(SharedRing ring) : ring_(std::move(ring)) {}

  // Writes the packets that go to the same place, as many as there is room for; returns how many.
  std::size_t put(const wire::TxBatch& batch, std::size_t first, std::size_t count) noexcept;
  // After put(): whether the reader sleeps and has not been told of this sleep by us yet.
  bool should_wake_reader() noexcept;
  // Whether the reader, who does not sleep, has not read all that was put.
  bool is_unread() noexcept;
  // Whether half of the ring is free; looks at the reader's position.
  bool is_half_empty() noexcept;
  // The positions of both; looks at the reader's.
  wire::Path::Reading reading() noexcept;
  // As last seen.
  std::uint64_t reader_position() const noexcept { return tail_seen_; }
  bool is_closed() const noexcept { return ring_.is_closed(); }
  Packs reader_packs() const noexcept { return ring_.packs(); }
  SharedRing& ring() { return ring_; }

 private:
  // False: there is no room.
  bool put(const wire::TxBatch& batch, const wire::TxBatch::Packet& packet,
           const std::optional<wire::PiggybackedAck>& ack) noexcept;
  bool look_at_reader() noexcept;
  bool fits(std::uint64_t bytes) const noexcept;
  bool has_room(std::uint64_t bytes) noexcept;

  SharedRing ring_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_seen_ = 0;
  std::uint32_t woken_sleep_ = 0;
};

class RingReader {
 public:
  explicit RingReader(SharedRing ring) : ring_(std::move(ring)) {}

  // The next packet, if there is one; valid until the next call of this or of release(). `fields`
  // gets all but the addresses.
  bool take(wire::RxDatagram& fields) noexcept;
  // Lets the writer have the place of the packet that was taken last.
  void release() noexcept;
  bool has_packet() const noexcept;
  // Announces that the reader is about to sleep (again: of this sleep nobody was woken yet); look
  // at has_packet() after it, before sleeping.
  void begin_sleep() noexcept;
  void end_sleep() noexcept;
  bool is_closed() const noexcept { return ring_.is_closed(); }
  // It was closed because the writer broke the rules.
  bool is_broken() const noexcept { return is_broken_; }
  SharedRing& ring() { return ring_; }

 private:
  // A packet up to that length is copied as a whole.
  static constexpr std::size_t kCopied = 256;
  static_assert(kCopied >= wire::kMaxHeaders);

  // For good; false.
  [[gnu::cold]] bool break_off() noexcept;

  SharedRing ring_;
  std::array<std::uint8_t, kCopied> copied_{};
  std::uint64_t tail_ = 0;
  std::uint64_t released_ = 0;  // as far as the writer knows
  std::uint32_t sleep_ = 0;     // odd: asleep
  bool is_broken_ = false;
};

}  // namespace verbena::link
