// SPDX-License-Identifier: BSD-2-Clause
// What passes between the engine and a link: packets from the first byte of the BTH to the last pad
// byte. The ICRC belongs to the link (a shared ring has none). Four bytes are left free behind
// every packet, so that a link can seal it in place.
//
// Where the path allows it (Path::packing), a merged packet stands for several packets: it takes as
// many PSNs and counts as that many. It carries their payloads in a row, behind the headers that
// their first and last packet would have. A merged packet never appears on a network.
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

// Where a packet goes, and the fields of its IP header.
struct Destination {
  IpAddress address;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  bool has_grh = false;  // the sender asked for a global route (UD receivers see it)
  std::uint32_t flow_label = 0;
  // The number of the port's address that sends; 0 is the port's own. Path resolution numbers the
  // others.
  std::uint8_t source = 0;
  bool operator==(const Destination&) const = default;
};

struct RxDatagram {
  std::span<const std::uint8_t> bytes;  // BTH .. pad; the ICRC was verified and removed
  // If not null, another process can still write to `bytes`, so each byte must be read only once;
  // this is a copy of their first kMaxHeaders bytes.
  const std::uint8_t* copied_start = nullptr;
  IpAddress source;
  IpAddress destination;  // the local address, or the multicast group
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint32_t flow_label = 0;
  bool has_grh = true;
  bool came_by_ring = false;  // from a process of this emulator
  // What the addresses mean in this fabric. The receiving device fills them in, because UD needs
  // them.
  Gid source_gid;
  Gid destination_gid;
  std::uint16_t source_lid = 0;
  // How many packets this one stands for; more than 1 for a merged packet.
  std::uint32_t psns = 1;
  // An acknowledgement from the same queue pair that travelled with the packet and precedes it.
  std::optional<PiggybackedAck> piggybacked_ack;
};

// A run: packets to one queue pair that arrived in one buffer at equal distances. All have the
// length of the first, except that the last may be shorter.
//
// A run is a type of its own because code that handles single packets (a capture, the daemon, most
// tests) need not know about runs. By default RxSink passes single packets on.
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

// Packets that one queue pair sends, in order and back to back in the caller's buffer. Consecutive
// packets of equal length to one destination are a run and take one GSO send. The batch is filled
// under the queue pair's lock. The link then reads it in the same thread under the same lock, which
// it needs to copy borrowed payloads. Runs are not split needlessly: once a run has ended in the
// second half of the buffer, the batch is full.
class TxBatch {
 public:
  static constexpr std::size_t kMaxPackets = 64;
  // The longest run: the UDP payload of an IPv6 packet as long as a loopback device's MTU (65536).
  static constexpr std::size_t kRunBytes = 65488;
  // The bytes behind a run that a link may overwrite while it sends the run, for the lengths of a
  // bundle's packets.
  static constexpr std::size_t kRoomBehind = 2 * kMaxPackets + 4;
  // The usual size of a buffer: each half has room for one longest packet and one longest run.
  static constexpr std::size_t kUsualBytes = 2 * (kRunBytes + kMaxPacket + kIcrcSize) + kRoomBehind;

  struct Packet {
    std::uint32_t offset;       // where the BTH begins in the buffer
    std::uint32_t length;       // BTH .. pad; room for the ICRC follows
    std::uint16_t destination;  // index for destination()
    bool continues_read;        // asks for more data of a READ that an earlier packet began
    std::uint32_t psns;         // how many a merged packet stands for; 0: not merged
    // The last `summed` bytes have the CRC-32 `sum`; 0: no sum is known.
    mutable std::uint32_t summed;
    std::uint32_t sum;
    // Where a borrowed payload is, its offset in the packet, and its length (pad follows); null if
    // the payload is in the buffer.
    mutable const std::uint8_t* borrowed;
    std::uint32_t borrowed_at;
    std::uint32_t borrowed_length;
  };

  explicit TxBatch(std::span<std::uint8_t> buffer) : buffer_(buffer) {
    VERBENA_CHECK(buffer.size() > kRoomBehind);
  }

  // Returns space for a packet of up to `length` bytes (without ICRC), or null if the batch is
  // full.
  std::uint8_t* begin(std::size_t length) {
    return has_room_for(length + kIcrcSize) ? buffer_.data() + used_ : nullptr;
  }
  // Adds the packet that was written at begin(). `length` is at most the length given there.
  void commit(std::size_t length, const Destination& destination) {
    commit_to(name(destination), length);
  }
  // Enters a destination once for several commit_to() and returns its index, which is valid until
  // clear(). Call it between begin() and the first commit.
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
  // Limits the batch to the length of the longest run until clear(), so that its packets, of any
  // lengths, can be one bundle.
  void be_one_run() { is_one_run_ = true; }
  // Makes the last packet a merged one, which stands for `psns` packets of `wire_bytes` in all.
  void make_merged(std::uint32_t psns, std::uint64_t wire_bytes) {
    Packet& last = packets_[count_ - 1];
    last.psns = psns;
    more_packets_ += psns - 1;
    more_bytes_ += wire_bytes - last.length;
  }
  // Notes that the last packet asks for more data of a READ that an earlier packet began. Rules
  // count messages, and how many packets ask for the data of a READ depends on the path.
  void note_continues_read() { packets_[count_ - 1].continues_read = true; }
  // Makes the last packet merged or ordinary, like `before`, its entry in an earlier batch.
  void make_as(const Packet& before) { packets_[count_ - 1].psns = before.psns; }
  // Notes the CRC-32 of the last packet's last `summed` bytes.
  void note_sum(std::uint32_t summed, std::uint32_t sum) {
    packets_[count_ - 1].summed = summed;
    packets_[count_ - 1].sum = sum;
  }
  // Notes that the last packet's payload, `length` bytes at offset `at`, was not written: it is at
  // `from` and stays there until clear(). The link copies it from there, or the first call that
  // returns the packet's bytes copies it into the buffer.
  void borrow(std::size_t at, const std::uint8_t* from, std::size_t length) {
    Packet& last = packets_[count_ - 1];
    last.borrowed = from;
    last.borrowed_at = static_cast<std::uint32_t>(at);
    last.borrowed_length = static_cast<std::uint32_t>(length);
  }
  // Sets the sender of the batch until clear(). Without it origin() is empty.
  void set_origin(const Origin& origin) { origin_ = &origin; }
  const Origin& origin() const {
    static constexpr Origin kNobody;
    return origin_ != nullptr ? *origin_ : kNobody;
  }
  // Adds a gate that keeps borrowed payloads in place. clear() leaves it. Call it at most once per
  // packet.
  void hold(Gate& gate) {
    VERBENA_CHECK(held_ < kMaxPackets);
    gates_[held_++] = &gate;
  }
  // Copies all borrowed payloads into the buffer and leaves the gates at once.
  void bring_in_all() {
    for (const Packet& p : packets()) bring_in(p);
    let_go();
  }
  // Notes that the borrowed payload of this packet was gone when it was to be copied, so that the
  // packet is lost. The sender must ask for that after the batch was sent (first_gone()): nobody
  // else tells the queue pair.
  [[gnu::cold]] void note_gone(const Packet& p) const {
    if (gone_ == nullptr) gone_ = &p;
  }
  // Returns the first packet whose borrowed payload was gone; null if there is none.
  const Packet* first_gone() const { return gone_; }
  void clear() {
    let_go();
    gone_ = nullptr;
    count_ = destinations_ = used_ = more_packets_ = more_bytes_ = 0;
    run_may_go_on_ = is_one_run_ = false;
    origin_ = nullptr;
  }

  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }
  std::size_t bytes() const { return used_; }
  // Packets and bytes that a network would carry for this batch; bytes count from BTH to pad.
  std::uint64_t wire_packets() const { return count_ + more_packets_; }
  std::uint64_t wire_bytes() const { return used_ - count_ * kIcrcSize + more_bytes_; }
  std::span<const Packet> packets() const { return {packets_.data(), count_}; }
  // Returns the packet's bytes and the room for its ICRC.
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
  // Returns the packet up to its payload if that is borrowed, else all of it.
  std::span<const std::uint8_t> start_of(const Packet& p) const {
    return buffer_.subspan(p.offset, p.borrowed != nullptr ? p.borrowed_at : p.length);
  }
  // Copies bytes of the packet. Returns false if borrowed ones are gone; then the packet is lost.
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
  // Returns the header of the packet at an index, to be changed before the batch is sent.
  std::uint8_t* start(std::size_t place) { return buffer_.data() + packets_[place].offset; }

 private:
  static Packet packet_at(std::size_t offset, std::size_t length, std::uint32_t destination) {
    return {static_cast<std::uint32_t>(offset),
            static_cast<std::uint32_t>(length),
            static_cast<std::uint16_t>(destination),
            false,
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
  // Turns a packet whose payload is gone into one that every receiver drops.
  [[gnu::cold]] void spoil(const Packet& p) const {
    std::uint8_t* const start = buffer_.data() + p.offset;
    Bth::spoil(start);
    std::memset(start + Bth::kSize, 0, p.length - Bth::kSize);
    p.summed = 0;
    note_gone(p);
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
  std::size_t run_step_ = 0;    // the length of a sealed packet of the run
  bool run_may_go_on_ = false;  // no shorter packet has ended it
  bool is_one_run_ = false;
  std::size_t destinations_ = 0;
  std::size_t more_packets_ = 0;
  std::size_t more_bytes_ = 0;
  std::array<Packet, kMaxPackets> packets_;
  mutable const Packet* gone_ = nullptr;
  std::array<Destination, kMaxPackets> to_;
  std::size_t held_ = 0;
  std::array<Gate*, kMaxPackets> gates_;
};

// Carries batches to the network: a link, a simulated wire, or a benchmark's memory. Calls for one
// queue pair come one after the other; calls for different queue pairs may run at once.
class Transmitter {
 public:
  virtual ~Transmitter() = default;
  // Sends in order. Packets that cannot be sent are lost, as on any network; the transport
  // recovers.
  virtual void send(TxBatch& batch, Qpn flow) noexcept = 0;
  // Returns the path to a queue pair. The transmitter must outlive it.
  virtual std::unique_ptr<Path> path_to(const Destination& to, Qpn peer) = 0;
};

}  // namespace verbena::wire
