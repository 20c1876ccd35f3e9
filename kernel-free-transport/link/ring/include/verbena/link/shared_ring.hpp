// SPDX-License-Identifier: BSD-2-Clause
// A ring of packets in shared memory from one context to another on the same host, one direction.
// The emulator creates it (a sealed memfd) and passes its descriptor to both; each maps it and
// closes the descriptor. One writer at a time, one reader at a time, no lock between the two.
//
//   page 0   what | key                              written once by the creator
//            tail, reader's state                    written by the reader
//            closed                                  written by anyone, once
//            which packets may stand for several     written by the reader
//   page 1.. records, each at a multiple of 64 bytes:
//            +----------------------+-------------+--------------------+-------------+
//            | tag (48) length (16) | fields (64) | packet, BTH .. pad | ack (64)? |
//            +----------------------+-------------+--------------------+-------------+
//            | tag (48)  65535 (16) | the next record did not fit here: it is at the beginning
//            +----------------------+
//
// The reader looks only at the word where the next record begins: a small packet costs one cache
// line. The tag is a keyed function of the record's position, which never repeats. Therefore
// neither the remains of an earlier lap nor a payload with chosen bytes looks like a record.
//
// Neither side trusts the other: each keeps its own position, size and key, copies a length before
// it checks and uses it, and copies a packet's headers out before the engine looks at them. A long
// payload stays in the ring until it is copied to where it belongs; a writer that changes it
// meanwhile has sent something else. A side that breaks the rules ends this ring and nothing else:
// the ring then counts as closed.
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

// Which packets may stand for several (wire/datagram.hpp). kMerged allows merged packets and
// piggybacked ACKs, kNothing neither.
enum class Packs : std::uint32_t { kMerged = 0, kNothing = 1 };

// The mapped memory. Movable; the destructor unmaps it. A forked child does not inherit the
// mapping: there close() and the destructor do nothing, and all other calls are forbidden.
class SharedRing {
 public:
  // Has room for a burst of 512 datagrams of 1 KiB to a receiver that is kept from its processor.
  static constexpr std::size_t kDefaultCapacity = 1u << 20;

  // Creates a ring and returns its descriptor; `capacity` bytes of records, a power of two from 64
  // KiB on.
  static Result<int, SocketError> create(std::size_t capacity = kDefaultCapacity);
  // Maps a ring that create() made, in any process. Leaves `fd` open.
  static Result<SharedRing, SocketError> map(int fd);

  SharedRing(SharedRing&& other) noexcept;
  SharedRing& operator=(SharedRing&& other) noexcept;
  ~SharedRing();

  // How many packets of this size (BTH .. pad) a ring of the default capacity holds.
  static std::uint32_t packets_held(std::size_t packet_bytes) noexcept;

  // Ends the ring for both sides: when a context closes, and by the emulator when one has died.
  void close() noexcept;
  bool is_closed() const noexcept;

  // Says which packets may stand for several. Called by the reader, at any time; at first, merged
  // ones may.
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
  int process_ = 0;  // the process that mapped it
};

class RingWriter {
 public:
  explicit RingWriter(SharedRing ring) : ring_(std::move(ring)) {}

  // Writes packets of the batch that go to this ring's reader, as many as there is room for;
  // returns how many.
  std::size_t put(const wire::TxBatch& batch, std::size_t first, std::size_t count) noexcept;
  // Returns whether the reader sleeps and was not yet woken from this sleep by us. Called after
  // put().
  bool should_wake_reader() noexcept;
  // Returns whether the reader is awake and has not read all that was put.
  bool is_unread() noexcept;
  // Returns whether half of the ring is free; looks at the reader's position if it has to.
  bool is_half_empty() noexcept;
  // Returns the positions of both sides; looks at the reader's.
  wire::Path::Reading reading() noexcept;
  // The reader's position as last seen.
  std::uint64_t reader_position() const noexcept { return tail_seen_; }
  bool is_closed() const noexcept { return ring_.is_closed(); }
  Packs reader_packs() const noexcept { return ring_.packs(); }
  SharedRing& ring() { return ring_; }

 private:
  // Returns false if there is no room.
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

  // Takes the next packet; returns false if there is none. The packet is valid until the next call
  // of take() or release(). Fills in all of `fields` but the addresses.
  bool take(wire::RxDatagram& fields) noexcept;
  // Gives the space of the packet that was taken last back to the writer.
  void release() noexcept;
  bool has_packet() const noexcept;
  // Announces that the reader is about to sleep. A second call announces a new sleep, for which no
  // writer has woken the reader yet. Call has_packet() afterwards, before sleeping.
  void begin_sleep() noexcept;
  void end_sleep() noexcept;
  bool is_closed() const noexcept { return ring_.is_closed(); }
  // Returns whether the ring was closed because the writer broke the rules.
  bool is_broken() const noexcept { return is_broken_; }
  SharedRing& ring() { return ring_; }

 private:
  // Packets up to this length are copied as a whole.
  static constexpr std::size_t kCopied = 256;
  static_assert(kCopied >= wire::kMaxHeaders);

  // Ends the ring for good. Returns false.
  [[gnu::cold]] bool break_off() noexcept;

  SharedRing ring_;
  std::array<std::uint8_t, kCopied> copied_{};
  std::uint64_t tail_ = 0;
  std::uint64_t released_ = 0;  // the position that the writer knows
  std::uint32_t sleep_ = 0;     // odd while asleep
  bool is_broken_ = false;
};

}  // namespace verbena::link
