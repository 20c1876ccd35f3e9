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

  // Returns the value of the first attribute of a type. The payload must consist of attributes.
  std::optional<std::span<const std::uint8_t>> attribute(std::uint16_t type_wanted) const;
  std::optional<std::uint32_t> attribute_u32(std::uint16_t type_wanted) const;
  // Returns the text without the closing NUL.
  std::optional<std::string_view> attribute_string(std::uint16_t type_wanted) const;
};

// Returns the messages up to the first one that does not fit.
std::vector<NetlinkMessage> parse_netlink(std::span<const std::uint8_t> datagram);

// Builds one message at a time. Between calls the header's length is always right.
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
  // Everything put between the two calls lies inside. end_nest takes what begin_nest returned.
  std::size_t begin_nest(std::uint16_t type);
  void end_nest(std::size_t nest);
  // Appends raw bytes instead of an attribute.
  void append(const void* bytes, std::size_t size);

  std::size_t size() const { return bytes_.size(); }
  std::vector<std::uint8_t> take() { return std::move(bytes_); }

 private:
  void put(std::uint16_t type, const void* value, std::size_t size);
  void set_length();

  std::vector<std::uint8_t> bytes_;
};

// The replies to a request, one element per datagram. The smallest buffer of a reader has 4096
// bytes.
struct NetlinkReplies {
  static constexpr std::size_t kDatagramMax = 3584;
  std::vector<std::vector<std::uint8_t>> datagrams;

  // Adds the message in a datagram of its own.
  void add(std::vector<std::uint8_t> message) { datagrams.push_back(std::move(message)); }
  // Adds the message to the last datagram if there is room, else in a datagram of its own.
  void pack(std::vector<std::uint8_t> message);
  // Adds NLMSG_ERROR; code 0 makes it an acknowledgement.
  void add_error(const NetlinkMessage& request, int code, std::uint32_t port);
  // Ends a dump. `code` says why the dump is incomplete or empty.
  void add_done(const NetlinkMessage& request, std::uint32_t port, int code = 0);
};

}  // namespace verbena::preload
