// A direct packet: the headers of a SEND, an RDMA WRITE or an answer to a READ, and behind them not
// the payload but the place where it lies in the memory of the process that sends. It stands for
// several packets at once and takes as many PSNs. Whoever receives it checks what it always checks
// and then fetches the payload to where it belongs, without a copy in between. It travels only
// where the receiving side has said that it can fetch (Transmitter::packing), and never leaves the
// host.
//
//   +-------------------------------+-------------------------------+
//   |             PSNs              |             count             |
//   +-------------------------------+-------------------------------+
//   |                          address                              |   `count` times
//   |                          length                               |
//   +---------------------------------------------------------------+
//   |                    address of the witness                     |   of an answer
//   |                   what it holds until then                    |
//   +---------------------------------------------------------------+
//
// The buffers of a request belong to it until it completes, and it completes after they were
// fetched. What a READ reads may be withdrawn by its owner as soon as the answer is on its way: the
// witness is a word over there that changes then, and is looked at after the payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "verbena/wire/bth.hpp"
#include "verbena/wire/bytes.hpp"
#include "verbena/wire/opcode.hpp"

namespace verbena::wire {

// Of another process; or of this one, to be written.
struct MemoryRange {
  std::uint64_t address;
  std::uint64_t length;
};
struct FetchTarget {
  std::uint8_t* bytes;
  std::size_t length;
};
// A word of another process; or none.
struct Witness {
  std::uint64_t address = 0;
  std::uint64_t value = 0;
  bool is_there() const { return address != 0; }
};

// The memory of whoever sent a datagram.
class SenderMemory {
 public:
  // Copies all of `from`, in order, to all of `to`; both have the same length. False: it cannot be
  // read, or was withdrawn by what the witness says after that, and the packet is as good as lost.
  // Part of it may have been copied then.
  virtual bool fetch(std::span<const FetchTarget> to, std::span<const MemoryRange> from,
                     const Witness& witness) noexcept = 0;

 protected:
  ~SenderMemory() = default;
};

// Of which operations joint and direct packets are.
constexpr bool may_stand_for_several(const OpcodeRow& row) {
  return row.transport == WireTransport::kRc &&
         (row.operation == Operation::kSend || row.operation == Operation::kWrite ||
          row.operation == Operation::kReadResponse);
}
// Of one that does, what a network would carry in headers beyond its own.
constexpr std::uint64_t more_header_bytes(const OpcodeRow& row, std::uint32_t psns) {
  // The first and the last answer to a READ have an AETH each.
  const bool has_two = row.operation == Operation::kReadResponse && row.place == Place::kOnly;
  return (psns - std::uint64_t{1}) * Bth::kSize + (psns > 1 && has_two ? Aeth::kSize : 0);
}

struct DirectPayload {
  static constexpr std::size_t kRangesMax = 7;
  static constexpr std::size_t kSizeMax = 8 + 16 * (kRangesMax + 1);
  // Whoever fetches does nothing else meanwhile. As many packets as that at the smallest path MTU.
  static constexpr std::uint64_t kLengthMax = 1u << 20;
  static constexpr std::uint32_t kPsnsMax = kLengthMax / 256;

  std::uint32_t psns = 0;
  std::uint32_t count = 0;
  std::uint64_t length = 0;                     // of all ranges
  std::array<MemoryRange, kRangesMax> ranges;  // the first `count`
  Witness witness;                              // of an answer

  // False: too many.
  bool add(const MemoryRange& range) {
    if (count == kRangesMax) return false;
    ranges[count++] = range;
    length += range.length;
    return true;
  }
  std::size_t size() const { return 8 + std::size_t{16} * (count + witness.is_there()); }
  void write_to(std::uint8_t* out) const {
    store_be32(out, psns);
    store_be32(out + 4, count);
    for (std::uint32_t i = 0; i < count; ++i) {
      store_be64(out + 8 + 16 * i, ranges[i].address);
      store_be64(out + 16 + 16 * i, ranges[i].length);
    }
    if (!witness.is_there()) return;
    store_be64(out + 8 + 16 * count, witness.address);
    store_be64(out + 16 + 16 * count, witness.value);
  }
  // From BTH to pad, what a network would carry in its place.
  std::uint64_t wire_bytes(const OpcodeRow& row) const {
    return row.header_bytes + more_header_bytes(row, psns) + (length + 3) / 4 * 4;
  }

  // What stands behind the headers of a packet of this kind; nothing if it makes no sense, which
  // no sender of ours would do.
  static std::optional<DirectPayload> parse(const OpcodeRow& row,
                                            std::span<const std::uint8_t> bytes);
};

inline std::optional<DirectPayload> DirectPayload::parse(const OpcodeRow& row,
                                                         std::span<const std::uint8_t> bytes) {
  if (!may_stand_for_several(row) || bytes.size() < 8) return std::nullopt;
  DirectPayload direct;
  direct.psns = load_be32(bytes.data());
  const std::uint32_t count = load_be32(bytes.data() + 4);
  const bool is_answer = row.operation == Operation::kReadResponse;
  if (direct.psns == 0 || direct.psns > kPsnsMax || count == 0 || count > kRangesMax ||
      bytes.size() != 8 + std::size_t{16} * (count + is_answer)) {
    return std::nullopt;
  }
  if (is_answer) {
    const std::uint8_t* at = bytes.data() + bytes.size() - 16;
    direct.witness = {load_be64(at), load_be64(at + 8)};
    if (!direct.witness.is_there()) return std::nullopt;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const MemoryRange range{load_be64(bytes.data() + 8 + 16 * i),
                            load_be64(bytes.data() + 16 + 16 * i)};
    if (range.length == 0 || range.length > kLengthMax - direct.length ||
        range.address + (range.length - 1) < range.address) {
      return std::nullopt;
    }
    direct.add(range);
  }
  return direct;
}

}  // namespace verbena::wire
