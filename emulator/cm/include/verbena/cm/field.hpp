// SPDX-License-Identifier: BSD-2-Clause
// Fields of a management datagram, named by the byte, the bit from that byte's top and the width.
// Every message lists its fields once, in a `visit`; reading, writing and the tests that corrupt
// each field in turn all walk that one list. Pure functions, any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "verbena/base/address.hpp"

namespace verbena::cm {

// An integer has at most 64 bits. An array starts at `byte` and has its own length.
struct Field {
  const char* name;
  std::uint16_t byte;
  std::uint16_t bit;    // 0 is the most significant bit of `byte`
  std::uint16_t width;  // bits
  constexpr std::size_t first_bit() const { return std::size_t{byte} * 8 + bit; }
};

// The part of a field that lies in one byte.
struct FieldPart {
  unsigned count;  // bits
  unsigned shift;  // from the byte's lowest bit
  constexpr unsigned mask() const { return (1u << count) - 1; }
};
constexpr FieldPart part_in_byte(const Field& f, std::size_t byte) {
  const std::size_t first = f.first_bit();
  const std::size_t last = first + f.width - 1;
  const std::size_t from = byte == first / 8 ? first % 8 : 0;
  const std::size_t to = byte == last / 8 ? last % 8 : 7;
  return {static_cast<unsigned>(to - from + 1), static_cast<unsigned>(7 - to)};
}

constexpr std::uint64_t read_bits(std::span<const std::uint8_t> bytes, const Field& f) {
  const std::size_t end = (f.first_bit() + f.width - 1) / 8 + 1;
  std::uint64_t value = 0;
  for (std::size_t i = f.first_bit() / 8; i < end; ++i) {
    const FieldPart part = part_in_byte(f, i);
    value = value << part.count | (bytes[i] >> part.shift & part.mask());
  }
  return value;
}

// Ignores bits of `value` above the width, so a value too large never spills into a neighbour.
constexpr void write_bits(std::span<std::uint8_t> bytes, const Field& f, std::uint64_t value) {
  const std::size_t begin = f.first_bit() / 8;
  for (std::size_t i = (f.first_bit() + f.width - 1) / 8 + 1; i-- > begin;) {
    const FieldPart part = part_in_byte(f, i);
    const unsigned mask = part.mask() << part.shift;
    const unsigned bits = static_cast<unsigned>(value) << part.shift & mask;
    bytes[i] = static_cast<std::uint8_t>((bytes[i] & ~mask) | bits);
    value >>= part.count;
  }
}

// Visitors that read a whole message from bytes, or write it.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  template <typename T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
  void operator()(T& value, const Field& f) const { value = static_cast<T>(read_bits(bytes_, f)); }
  template <std::size_t N>
  void operator()(std::array<std::uint8_t, N>& value, const Field& f) const {
    std::copy_n(bytes_.begin() + f.byte, N, value.begin());
  }
  void operator()(Gid& value, const Field& f) const { (*this)(value.bytes, f); }

 private:
  std::span<const std::uint8_t> bytes_;
};

class FieldWriter {
 public:
  explicit FieldWriter(std::span<std::uint8_t> bytes) : bytes_(bytes) {}
  template <typename T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
  void operator()(const T& value, const Field& f) const {
    write_bits(bytes_, f, static_cast<std::uint64_t>(value));
  }
  template <std::size_t N>
  void operator()(const std::array<std::uint8_t, N>& value, const Field& f) const {
    std::copy_n(value.begin(), N, bytes_.begin() + f.byte);
  }
  void operator()(const Gid& value, const Field& f) const { (*this)(value.bytes, f); }

 private:
  std::span<std::uint8_t> bytes_;
};

}  // namespace verbena::cm
