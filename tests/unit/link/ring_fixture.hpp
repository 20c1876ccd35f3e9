// SPDX-License-Identifier: BSD-2-Clause
// What the tests of rings share: a ring's file, numbered packets, and the view of a peer that
// writes anything to the memory.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "link_fixture.hpp"
#include "verbena/base/random.hpp"
#include "verbena/link/shared_ring.hpp"

namespace verbena::link::test {

inline constexpr std::size_t kSmall = 64 * 1024;

struct RingFile {
  explicit RingFile(std::size_t capacity = kSmall) : fd(SharedRing::create(capacity).value()) {}
  ~RingFile() { ::close(fd); }
  RingFile(const RingFile&) = delete;
  RingFile& operator=(const RingFile&) = delete;
  SharedRing map() const { return SharedRing::map(fd).value(); }
  int fd;
};

// Returns the length of packet number n: small, large or in between, always the same for one n.
inline std::size_t length_of(std::uint32_t n) {
  Random random(n);
  switch (random.below(3)) {
    case 0:
      return 12 + 4 * random.below(16);
    case 1:
      return 4096 + 4 * random.below(16);
    default:
      return 12 + 4 * random.below(1024);
  }
}

// Moves a part of the last packet to `there`, and lets the batch borrow it from there.
inline void borrow(wire::TxBatch& batch, std::size_t from, std::size_t length, Bytes& there) {
  const auto in_batch = batch.sealed_bytes(batch.packets().back()).subspan(from, length);
  there.assign(in_batch.begin(), in_batch.end());
  std::fill(in_batch.begin(), in_batch.end(), 0);
  batch.borrow(from, there.data(), length);
}

// Puts packet number n. Half of the long packets are borrowed, behind headers and before pads of
// all lengths.
inline bool put_numbered(RingWriter& writer, std::uint32_t n) {
  Batch batch(8192);
  Bytes borrowed;
  wire::Destination fields = to(own_address(), n % 3 != 0);
  fields.traffic_class = static_cast<std::uint8_t>(n);
  fields.hop_limit = static_cast<std::uint8_t>(n >> 3);
  const std::size_t length = length_of(n);
  batch.add(make_packet(Qpn(n), n, length), fields);
  const std::size_t start = wire::Bth::kSize + 4 * (n / 2 % 14);
  const std::size_t pad = n / 28 % 4;
  if (n % 2 == 0 && length >= start + 4) borrow(batch.get(), start, length - start - pad, borrowed);
  return writer.put(batch.get(), 0, 1) == 1;
}

// Whether the next packet in the ring is number n, and whole.
inline ::testing::AssertionResult takes_numbered(RingReader& reader, std::uint32_t n) {
  wire::RxDatagram fields;
  if (!reader.take(fields)) return ::testing::AssertionFailure() << "nothing there";
  if (!std::ranges::equal(fields.bytes, make_packet(Qpn(n), n, length_of(n))) ||
      fields.traffic_class != static_cast<std::uint8_t>(n) ||
      fields.hop_limit != static_cast<std::uint8_t>(n >> 3) || fields.has_grh != (n % 3 != 0)) {
    return ::testing::AssertionFailure() << "packet " << n << " is not what was put";
  }
  return ::testing::AssertionSuccess();
}

// The whole memory of a ring, which this writes without the ring's rules.
class RawMemory {
 public:
  static constexpr std::size_t kTailAt = 64;
  static constexpr std::size_t kRecordsAt = 4096;
  explicit RawMemory(int fd)
      : at_(static_cast<std::uint8_t*>(
            ::mmap(nullptr, kRecordsAt + kSmall, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0))) {}
  ~RawMemory() { ::munmap(at_, kRecordsAt + kSmall); }
  RawMemory(const RawMemory&) = delete;
  RawMemory& operator=(const RawMemory&) = delete;
  std::uint8_t* at(std::size_t offset) { return at_ + offset; }

 private:
  std::uint8_t* at_;
};

}  // namespace verbena::link::test
