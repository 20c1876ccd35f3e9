// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/preload/netlink_message.hpp"

#include <linux/netlink.h>

#include <algorithm>
#include <cstring>

#include "verbena/preload/load.hpp"

namespace verbena::preload {
namespace {

static_assert(sizeof(nlmsghdr) == kNetlinkHeaderSize);

constexpr std::size_t aligned(std::size_t size) { return (size + 3) & ~std::size_t{3}; }

}  // namespace

std::optional<std::span<const std::uint8_t>> NetlinkMessage::attribute(
    std::uint16_t type_wanted) const {
  std::size_t at = 0;
  while (at + sizeof(nlattr) <= payload.size()) {
    const std::size_t length = load<std::uint16_t>(payload, at);
    if (length < sizeof(nlattr) || length > payload.size() - at) return std::nullopt;
    if ((load<std::uint16_t>(payload, at + 2) & NLA_TYPE_MASK) == type_wanted) {
      return payload.subspan(at + sizeof(nlattr), length - sizeof(nlattr));
    }
    at += aligned(length);
  }
  return std::nullopt;
}

std::optional<std::uint32_t> NetlinkMessage::attribute_u32(std::uint16_t type_wanted) const {
  const auto value = attribute(type_wanted);
  if (!value || value->size() < sizeof(std::uint32_t)) return std::nullopt;
  return load<std::uint32_t>(*value, 0);
}

std::optional<std::string_view> NetlinkMessage::attribute_string(std::uint16_t type_wanted) const {
  const auto value = attribute(type_wanted);
  if (!value) return std::nullopt;
  const std::string_view text(reinterpret_cast<const char*>(value->data()), value->size());
  return text.substr(0, text.find('\0'));
}

std::vector<NetlinkMessage> parse_netlink(std::span<const std::uint8_t> datagram) {
  std::vector<NetlinkMessage> messages;
  while (datagram.size() >= kNetlinkHeaderSize) {
    const std::size_t length = load<std::uint32_t>(datagram, 0);
    if (length < kNetlinkHeaderSize || length > datagram.size()) break;
    NetlinkMessage message;
    message.type = load<std::uint16_t>(datagram, 4);
    message.flags = load<std::uint16_t>(datagram, 6);
    message.sequence = load<std::uint32_t>(datagram, 8);
    message.port = load<std::uint32_t>(datagram, 12);
    message.bytes = datagram.first(length);
    message.payload = message.bytes.subspan(kNetlinkHeaderSize);
    messages.push_back(message);
    datagram = datagram.subspan(std::min(aligned(length), datagram.size()));
  }
  return messages;
}

NetlinkWriter::NetlinkWriter(std::uint16_t type, std::uint16_t flags, std::uint32_t sequence,
                             std::uint32_t port) {
  nlmsghdr header{};
  header.nlmsg_len = sizeof header;
  header.nlmsg_type = type;
  header.nlmsg_flags = flags;
  header.nlmsg_seq = sequence;
  header.nlmsg_pid = port;
  append(&header, sizeof header);
}

void NetlinkWriter::put_string(std::uint16_t type, std::string_view text) {
  std::vector<char> closed(text.begin(), text.end());
  closed.push_back('\0');
  put(type, closed.data(), closed.size());
}

std::size_t NetlinkWriter::begin_nest(std::uint16_t type) {
  const std::size_t nest = bytes_.size();
  put(static_cast<std::uint16_t>(type | NLA_F_NESTED), nullptr, 0);
  return nest;
}

void NetlinkWriter::end_nest(std::size_t nest) {
  const auto length = static_cast<std::uint16_t>(bytes_.size() - nest);
  std::memcpy(bytes_.data() + nest, &length, sizeof length);
}

void NetlinkWriter::append(const void* bytes, std::size_t size) {
  const auto* first = static_cast<const std::uint8_t*>(bytes);
  bytes_.insert(bytes_.end(), first, first + size);
  bytes_.resize(aligned(bytes_.size()));
  set_length();
}

void NetlinkWriter::put(std::uint16_t type, const void* value, std::size_t size) {
  nlattr header{};
  header.nla_len = static_cast<std::uint16_t>(sizeof header + size);
  header.nla_type = type;
  append(&header, sizeof header);
  if (size != 0) append(value, size);
}

void NetlinkWriter::set_length() {
  const auto length = static_cast<std::uint32_t>(bytes_.size());
  std::memcpy(bytes_.data(), &length, sizeof length);
}

void NetlinkReplies::pack(std::vector<std::uint8_t> message) {
  if (datagrams.empty() || datagrams.back().size() + message.size() > kDatagramMax) {
    add(std::move(message));
    return;
  }
  datagrams.back().insert(datagrams.back().end(), message.begin(), message.end());
}

void NetlinkReplies::add_error(const NetlinkMessage& request, int code, std::uint32_t port) {
  NetlinkWriter writer(NLMSG_ERROR, NLM_F_CAPPED, request.sequence, port);
  const std::int32_t error = -code;
  writer.append(&error, sizeof error);
  writer.append(request.bytes.data(), kNetlinkHeaderSize);
  add(writer.take());
}

void NetlinkReplies::add_done(const NetlinkMessage& request, std::uint32_t port, int code) {
  NetlinkWriter writer(NLMSG_DONE, NLM_F_MULTI, request.sequence, port);
  const std::int32_t status = -code;
  writer.append(&status, sizeof status);
  add(writer.take());
}

}  // namespace verbena::preload
