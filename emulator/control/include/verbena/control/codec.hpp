// SPDX-License-Identifier: BSD-2-Clause
// Turns messages into bytes and back. Integers are little endian; strings and lists have a 32-bit
// count. The decoder trusts nothing: it checks every length against what is left, accepts only 0
// and 1 as a bool, and treats bytes left over as an error. Throws nothing except std::bad_alloc.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "verbena/base/address.hpp"
#include "verbena/control/error.hpp"
#include "verbena/control/protocol.hpp"

namespace verbena::control {

class Encoder {
 public:
  explicit Encoder(std::vector<std::uint8_t>& out) : out_(out) {}

  template <typename... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }

 private:
  template <std::unsigned_integral T>
  void put(const T& value) {
    std::array<std::uint8_t, sizeof(T)> bytes;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes[i] = static_cast<std::uint8_t>(std::uint64_t{value} >> (8 * i));
    }
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  template <typename T>
  requires std::is_enum_v<T>
  void put(const T& value) { put(static_cast<std::underlying_type_t<T>>(value)); }
  void put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    out_.insert(out_.end(), text.begin(), text.end());
  }
  void put(const IpAddress& ip) { out_.insert(out_.end(), ip.bytes.begin(), ip.bytes.end()); }
  void put(const Gid& gid) { out_.insert(out_.end(), gid.bytes.begin(), gid.bytes.end()); }
  void put(const std::vector<std::uint8_t>& bytes) {
    put(static_cast<std::uint32_t>(bytes.size()));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  template <typename T>
  void put(const std::vector<T>& list) {
    put(static_cast<std::uint32_t>(list.size()));
    for (const T& element : list) put(element);
  }
  template <typename T>
  requires requires(Encoder& a, const T& m) { T::fields(a, m); }
  void put(const T& value) { T::fields(*this, value); }

  std::vector<std::uint8_t>& out_;
};

class Decoder {
 public:
  explicit Decoder(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  template <typename... T>
  void operator()(T&... values) {
    (get(values), ...);
  }
  // Returns true if all fields were present and valid and no bytes are left.
  bool is_complete() const { return ok_ && rest_.empty(); }

 private:
  const std::uint8_t* take(std::size_t n) {
    if (!ok_ || n > rest_.size()) {
      ok_ = false;
      return nullptr;
    }
    const std::uint8_t* p = rest_.data();
    rest_ = rest_.subspan(n);
    return p;
  }
  template <std::unsigned_integral T>
  void get(T& value) {
    const std::uint8_t* p = take(sizeof(T));
    if (p == nullptr) return;
    if constexpr (std::is_same_v<T, bool>) {
      if (*p > 1) ok_ = false;
      value = *p == 1;
    } else {
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < sizeof(T); ++i) sum |= std::uint64_t{p[i]} << (8 * i);
      value = static_cast<T>(sum);
    }
  }
  template <typename T>
  requires std::is_enum_v<T>
  void get(T& value) {
    std::underlying_type_t<T> number = 0;
    get(number);
    value = static_cast<T>(number);
  }
  void get(std::string& text) {
    std::uint32_t size = 0;
    get(size);
    if (const std::uint8_t* p = take(size)) text.assign(reinterpret_cast<const char*>(p), size);
  }
  template <typename T>
  requires std::same_as<T, IpAddress> || std::same_as<T, Gid>
  void get(T& address) {
    if (const std::uint8_t* p = take(address.bytes.size())) {
      std::memcpy(address.bytes.data(), p, address.bytes.size());
    }
  }
  void get(std::vector<std::uint8_t>& bytes) {
    std::uint32_t size = 0;
    get(size);
    if (const std::uint8_t* p = take(size)) bytes.assign(p, p + size);
  }
  // An element takes at least one byte, so decoding with a false count stops at the end of the
  // message. No allocation depends on the count that the peer claims.
  template <typename T>
  void get(std::vector<T>& list) {
    std::uint32_t count = 0;
    get(count);
    list.clear();
    for (std::uint32_t i = 0; i < count && ok_; ++i) get(list.emplace_back());
  }
  template <typename T>
  requires requires(Decoder& a, T& m) { T::fields(a, m); }
  void get(T& value) { T::fields(*this, value); }

  std::span<const std::uint8_t> rest_;
  bool ok_ = true;
};

inline void write_header(std::uint8_t* to, const Header& h) {
  const auto put = [&to](std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) *to++ = static_cast<std::uint8_t>(value >> (8 * i));
  };
  put(h.magic, 4);
  put(h.version, 2);
  put(h.type, 2);
  put(h.sequence, 4);
  put(h.length, 4);
}

// Returns header and payload, ready to be sent as one packet.
template <typename Message>
std::vector<std::uint8_t> encode(const Message& message, std::uint32_t sequence) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(256);
  bytes.resize(kHeaderSize);
  Encoder encoder(bytes);
  encoder(message);
  Header h;
  h.type = static_cast<std::uint16_t>(Message::kType);
  h.sequence = sequence;
  h.length = static_cast<std::uint32_t>(bytes.size() - kHeaderSize);
  write_header(bytes.data(), h);
  return bytes;
}

// Fails if the bytes are not of this protocol at all. Accepts a foreign version; the caller answers
// it (see `Refused`).
Outcome<Header> decode_header(std::span<const std::uint8_t> packet);

// Returns the type's name for messages to people, or "unknown".
const char* message_name(MessageType type);

Failure<Error> malformed(MessageType type);

// `payload` is what follows the header.
template <typename Message>
Outcome<Message> decode(std::span<const std::uint8_t> payload) {
  Message message;
  Decoder decoder(payload);
  decoder(message);
  if (!decoder.is_complete()) return malformed(Message::kType);
  return message;
}

}  // namespace verbena::control
