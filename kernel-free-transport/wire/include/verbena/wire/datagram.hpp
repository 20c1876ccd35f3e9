// SPDX-License-Identifier: BSD-2-Clause
// What passes between the engine and a link: packets from the first byte of the BTH to the last
// pad byte. The ICRC belongs to the link (a shared ring has none); room for its four bytes is left
// behind every packet, so that a link can seal packets in place.
//
// A packet may stand for several, take as many PSNs and count as them, where the path says so
// (Path::packing): such a merged one carries their payloads, one after the other, behind the
// headers that the first and the last of them would have. A network never sees it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "verbena/base/address.hpp"
#include "verbena/base/check.hpp"
#include "verbena/base/guarded_copy.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/base/short_copy.hpp"
#include "verbena/base/types.hpp"
#include "verbena/wire/origin.hpp"
#include "verbena/wire/path.hpp"
#include "verbena/wire/piggybacked_ack.hpp"
#include "verbena/wire/sizes.hpp"

namespace verbena::wire {

// Where a packet goes and with which IP header fields.
struct Destination {
  IpAddress address;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  bool has_grh = false;  // sender asked for a global route (matters to UD receivers)
  std::uint32_t flow_label = 0;
  // From which of the port's addresses; 0 is its own. Whoever resolves paths numbers the others.
  std::uint8_t source = 0;
  bool operator==(const Destination&) const = default;
};

struct RxDatagram {
  std::span<const std::uint8_t> bytes;  // BTH .. pad, ICRC verified and cut off
  // Null, or: another process can still write to `bytes`, so that each is to be read once; the
  // first kMaxHeaders of them as they were when they came.
  const std::uint8_t* copied_start = nullptr;
  IpAddress source;
  IpAddress destination;  // the local address, or the multicast group
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint32_t flow_label = 0;
  bool has_grh = true;
  bool came_by_ring = false;  // so that a process of this emulator has sent it
  // What the addresses mean in this fabric; filled by the device that receives (UD needs them).
  Gid source_gid;
  Gid destination_gid;
  std::uint16_t source_lid = 0;
  // More than 1: a merged packet, which stands for so many.
  std::uint32_t psns = 1;
  // An acknowledgement by the same queue pair's other half that came with it, and before it.
  std::optional<PiggybackedAck> piggybacked_ack;
};

// A run: packets to one queue pair that came as one buffer, each at the same distance behind the
// one before. All are as long as the first, but for a shorter last one.
//
// Not a count in RxDatagram: who looks at packets one by one (a capture, the daemon, most tests)
// knows no runs, and RxSink hands them over so unless it is asked otherwise.
struct RxRun {
  RxDatagram head;
  std::size_t step = 0;
  std::size_t last_length = 0;
  std::uint32_t count = 0;

  std::span<const std::uint8_t> bytes_at(std::uint32_t i) const {
    return {head.bytes.data() + i * step, i + 1 == count ? last_length : head.bytes.size()};
  }
  RxDatagram at(std::uint32_t i) const {
    RxDatagram datagram = head;
    datagram.bytes = bytes_at(i);
    if (i != 0) datagram.piggybacked_ack.reset();
    return datagram;
  }
};

// Packets of one queue pair on their way out, in order, back to back in a caller's buffer: a run
// of equal length to one destination is one GSO send. Filled under the queue pair's lock; the
// link reads it after, under the same lock and in the same thread, as bringing in what is borrowed
// needs. A run is not torn where it need not be: the batch is full when one ends in the second half
// of the buffer.
class TxBatch {
 public:
  static constexpr std::size_t kMaxPackets = 64;
  // The longest run: what an IPv6 packet carries that is as long as a loopback device's MTU allows.
  static constexpr std::size_t kRunBytes = 65488;
  // What a link may write behind a run for as long as it sends that: the lengths of its packets.
  static constexpr std::size_t kRoomBehind = 2 * kMaxPackets + 4;
  // For a run that a single longer packet goes before, and as much again.
  static constexpr std::size_t kUsualBytes = 2 * (kRunBytes + kMaxPacket + kIcrcSize) + kRoomBehind;

  struct Packet {
    std::uint32_t offset;       // of the BTH in the buffer
    std::uint32_t length;       // BTH .. pad; the ICRC's room follows
    std::uint32_t destination;  // index for destination()
    std::uint32_t psns;         // that a merged packet stands for; 0: an ordinary one
    // So many bytes at the end have the CRC-32 `sum`; 0: not known.
    mutable std::uint32_t summed;
    std::uint32_t sum;
    // Of a packet whose payload is not in the buffer yet: where it is, from which byte on, and how
    // much (behind it, pad); null otherwise.
    mutable const std::uint8_t* borrowed;
    std::uint32_t borrowed_at;
    std::uint32_t borrowed_length;
  };

  explicit TxBatch(std::span<std::uint8_t> buffer) : buffer_(buffer) {
    VERBENA_CHECK(buffer.size() > kRoomBehind);
  }

  // Space for a packet of up to `length` bytes (without ICRC), or null when the batch is full.
  std::uint8_t* begin(std::size_t length) {
    return has_room_for(length + kIcrcSize) ? buffer_.data() + used_ : nullptr;
  }
  // Takes the packet that was written at begin(); `length` at most what was asked for.
  void commit(std::size_t length, const Destination& destination) {
    commit_to(name(destination), length);
  }
  // The same for several to one destination, which is looked at once: its place, until clear().
  // Between begin() and the first commit.
  std::uint32_t name(const Destination& destination) {
    if (destinations_ == 0 || !(to_[destinations_ - 1] == destination)) {
      VERBENA_CHECK(destinations_ < kMaxPackets);
      to_[destinations_++] = destination;
    }
    return static_cast<std::uint32_t>(destinations_ - 1);
  }
  void commit_to(std::uint32_t destination, std::size_t length) {
    VERBENA_CHECK(count_ < kMaxPackets &&
                  used_ + length + kIcrcSize + kRoomBehind <= buffer_.size());
    packets_[count_++] = packet_at(used_, length, destination);
    const std::size_t sealed = length + kIcrcSize;
    if (!continues_run(sealed)) {
      run_begins_at_ = used_;
      run_step_ = sealed;
    }
    run_may_go_on_ = sealed == run_step_;
    used_ += sealed;
  }
  // Packets of any lengths go at once: the batch is full when a run is, until clear().
  void be_one_run() { is_one_run_ = true; }
  // Of the packet that was taken last: it stands for `psns` packets of `wire_bytes` in all.
  void make_merged(std::uint32_t psns, std::uint64_t wire_bytes) {
    Packet& last = packets_[count_ - 1];
    last.psns = psns;
    more_packets_ += psns - 1;
    more_bytes_ += wire_bytes - last.length;
  }
  // It was in a batch before, and is of the same kind now.
  void make_as(const Packet& before) { packets_[count_ - 1].psns = before.psns; }
  // Of so many bytes at its end this is the checksum.
  void note_sum(std::uint32_t summed, std::uint32_t sum) {
    packets_[count_ - 1].summed = summed;
    packets_[count_ - 1].sum = sum;
  }
  // Its payload, `length` bytes from `at` on, was not written: it is at `from`, and stays so until
  // clear(). Whoever sends the batch copies it from there, or has it brought in by the first look.
  void borrow(std::size_t at, const std::uint8_t* from, std::size_t length) {
    Packet& last = packets_[count_ - 1];
    last.borrowed = from;
    last.borrowed_at = static_cast<std::uint32_t>(at);
    last.borrowed_length = static_cast<std::uint32_t>(length);
  }
  // Who sends it, until clear(); whom nobody named has no name.
  void set_origin(const Origin& origin) { origin_ = &origin; }
  const Origin& origin() const {
    static constexpr Origin kNobody;
    return origin_ != nullptr ? *origin_ : kNobody;
  }
  // What keeps borrowed payloads where they are; left by clear(). Once at most for each packet.
  void hold(Gate& gate) {
    VERBENA_CHECK(held_ < kMaxPackets);
    gates_[held_++] = &gate;
  }
  // Ends that sooner.
  void bring_in_all() {
    for (const Packet& p : packets()) bring_in(p);
    let_go();
  }
  void clear() {
    let_go();
    count_ = destinations_ = used_ = more_packets_ = more_bytes_ = 0;
    run_may_go_on_ = is_one_run_ = false;
    origin_ = nullptr;
  }

  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }
  std::size_t bytes() const { return used_; }
  // What a network would carry, from BTH to pad.
  std::uint64_t wire_packets() const { return count_ + more_packets_; }
  std::uint64_t wire_bytes() const { return used_ - count_ * kIcrcSize + more_bytes_; }
  std::span<const Packet> packets() const { return {packets_.data(), count_}; }
  // The packet's bytes and the room for its ICRC.
  std::span<std::uint8_t> sealed_bytes(const Packet& p) const {
    bring_in(p);
    return buffer_.subspan(p.offset, p.length + kIcrcSize);
  }
  std::span<std::uint8_t> room_behind(const Packet& p) const {
    return buffer_.subspan(p.offset + p.length + kIcrcSize, kRoomBehind);
  }
  std::span<const std::uint8_t> bytes_of(const Packet& p) const {
    bring_in(p);
    return buffer_.subspan(p.offset, p.length);
  }
  // As much as is there without the payload, if that is borrowed; else all.
  std::span<const std::uint8_t> start_of(const Packet& p) const {
    return buffer_.subspan(p.offset, p.borrowed != nullptr ? p.borrowed_at : p.length);
  }
  // Bytes of the packet, wherever they are. False: borrowed ones are gone, and the packet is lost.
  bool copy(const Packet& p, std::size_t begin, std::size_t end, std::uint8_t* to) const {
    const std::uint8_t* in_buffer = buffer_.data() + p.offset;
    if (p.borrowed == nullptr) {
      if (begin < end) short_copy(to, in_buffer + begin, end - begin);
      return true;
    }
    const auto copy_until = [&](std::size_t upto, const std::uint8_t* from) {
      if (begin >= std::min(upto, end)) return true;
      const std::size_t length = std::min(upto, end) - begin;
      const bool is_there = guarded_copy(to, from, length);
      begin += length;
      to += length;
      return is_there;
    };
    return copy_until(p.borrowed_at, in_buffer + begin) &&
           copy_until(p.borrowed_at + p.borrowed_length, p.borrowed + (begin - p.borrowed_at)) &&
           copy_until(end, in_buffer + begin);
  }
  const Destination& destination(const Packet& p) const { return to_[p.destination]; }
  // The header of the packet in that place, to be changed before the batch goes.
  std::uint8_t* start(std::size_t place) { return buffer_.data() + packets_[place].offset; }

 private:
  static Packet packet_at(std::size_t offset, std::size_t length, std::uint32_t destination) {
    return {static_cast<std::uint32_t>(offset),
            static_cast<std::uint32_t>(length),
            destination,
            0,
            0,
            0,
            nullptr,
            0,
            0};
  }
  std::size_t limit() const {
    return (is_one_run_ ? std::min(kRunBytes, buffer_.size()) : buffer_.size()) - kRoomBehind;
  }
  bool has_room_for(std::size_t sealed) const {
    if (count_ == kMaxPackets || used_ + sealed > limit()) return false;
    return used_ <= buffer_.size() / 2 || continues_run(sealed);
  }
  void bring_in(const Packet& p) const {
    if (p.borrowed == nullptr) [[likely]]
      return;
    std::uint8_t* const at = buffer_.data() + p.offset + p.borrowed_at;
    if (!guarded_copy(at, p.borrowed, p.borrowed_length)) [[unlikely]]
      spoil(p);
    p.borrowed = nullptr;
  }
  // Makes of a packet whose payload is gone one that nobody takes: as good as lost.
  [[gnu::cold]] void spoil(const Packet& p) const {
    std::uint8_t* const start = buffer_.data() + p.offset;
    Bth::spoil(start);
    std::memset(start + Bth::kSize, 0, p.length - Bth::kSize);
    p.summed = 0;
  }
  void let_go() {
    while (held_ != 0) gates_[--held_]->leave();
  }
  bool continues_run(std::size_t sealed) const {
    return run_may_go_on_ && sealed <= run_step_ && used_ - run_begins_at_ + sealed <= kRunBytes;
  }

  std::span<std::uint8_t> buffer_;
  const Origin* origin_ = nullptr;
  std::size_t used_ = 0;
  std::size_t count_ = 0;
  std::size_t run_begins_at_ = 0;
  std::size_t run_step_ = 0;    // a packet of the run, sealed
  bool run_may_go_on_ = false;  // no shorter one has ended it
  bool is_one_run_ = false;
  std::size_t destinations_ = 0;
  std::size_t more_packets_ = 0;
  std::size_t more_bytes_ = 0;
  std::array<Packet, kMaxPackets> packets_;
  std::array<Destination, kMaxPackets> to_;
  std::size_t held_ = 0;
  std::array<Gate*, kMaxPackets> gates_;
};

// Whoever carries batches to the network: a link, a simulated wire, a benchmark's memory. Calls for
// one queue pair come one after the other; those of different queue pairs may run at once.
class Transmitter {
 public:
  virtual ~Transmitter() = default;
  // Sends in order. What cannot be sent is lost, as on any network; the transport recovers.
  virtual void send(TxBatch& batch, Qpn flow) noexcept = 0;
  // The path to this queue pair, which the transmitter outlives.
  virtual std::unique_ptr<Path> path_to(const Destination& to, Qpn peer) = 0;
};

}  // namespace verbena::wire
