// SPDX-License-Identifier: BSD-2-Clause
// Netlink's framing: messages of a 16-byte header and attributes {u16 length, u16 type, value},
// each padded to four bytes, in host byte order. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace verbena::preload {

inline constexpr std::size_t kNetlinkHeaderSize = 16;

// A message inside someone's buffer; its length was checked against that buffer.
struct NetlinkMessage {
  std::uint16_t type = 0;
  std::uint16_t flags = 0;
  std::uint32_t sequence = 0;
  std::uint32_t port = 0;
  std::span<const std::uint8_t> bytes;    // all of it, header included
  std::span<const std::uint8_t> payload;  // without the header

  // The value of the first attribute of a type. The payload is attributes alone.
  std::optional<std::span<const std::uint8_t>> attribute(std::uint16_t type_wanted) const;
  std::optional<std::uint32_t> attribute_u32(std::uint16_t type_wanted) const;
  // Without the closing NUL.
  std::optional<std::string_view> attribute_string(std::uint16_t type_wanted) const;
};

// Up to the first message that does not fit.
std::vector<NetlinkMessage> parse_netlink(std::span<const std::uint8_t> datagram);

// Builds one message at a time; the header's length is right at any time between two calls.
class NetlinkWriter {
 public:
  NetlinkWriter(std::uint16_t type, std::uint16_t flags, std::uint32_t sequence,
                std::uint32_t port);

  void put_u8(std::uint16_t type, std::uint8_t value) { put(type, &value, sizeof value); }
  void put_u32(std::uint16_t type, std::uint32_t value) { put(type, &value, sizeof value); }
  void put_u64(std::uint16_t type, std::uint64_t value) { put(type, &value, sizeof value); }
  void put_string(std::uint16_t type, std::string_view text);
  void put_bytes(std::uint16_t type, std::span<const std::uint8_t> bytes) {
    put(type, bytes.data(), bytes.size());
  }
  // Everything put between the two is inside. Returns what end_nest wants.
  std::size_t begin_nest(std::uint16_t type);
  void end_nest(std::size_t nest);
  // Raw bytes instead of attributes.
  void append(const void* bytes, std::size_t size);

  std::size_t size() const { return bytes_.size(); }
  std::vector<std::uint8_t> take() { return std::move(bytes_); }

 private:
  void put(std::uint16_t type, const void* value, std::size_t size);
  void set_length();

  std::vector<std::uint8_t> bytes_;
};

// What goes back, one element per datagram. Readers' buffers are 4096 bytes in the smallest case.
struct NetlinkReplies {
  static constexpr std::size_t kDatagramMax = 3584;
  std::vector<std::vector<std::uint8_t>> datagrams;

  // In a datagram of its own.
  void add(std::vector<std::uint8_t> message) { datagrams.push_back(std::move(message)); }
  // Behind the last one, if there is room.
  void pack(std::vector<std::uint8_t> message);
  // NLMSG_ERROR; code 0 is the acknowledgement.
  void add_error(const NetlinkMessage& request, int code, std::uint32_t port);
  // The end of a dump; `code`: why it is not all, or nothing.
  void add_done(const NetlinkMessage& request, std::uint32_t port, int code = 0);
};

}  // namespace verbena::preload
