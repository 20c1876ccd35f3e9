// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/control/codec.hpp"

#include <cerrno>

namespace verbena::control {

Outcome<Header> decode_header(std::span<const std::uint8_t> packet) {
  if (packet.size() < kHeaderSize) return fail(EPROTO, "control message shorter than its header");
  const auto get = [&packet](std::size_t at, std::size_t bytes) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value |= std::uint32_t{packet[at + i]} << (8 * i);
    return value;
  };
  Header h;
  h.magic = get(0, 4);
  h.version = static_cast<std::uint16_t>(get(4, 2));
  h.type = static_cast<std::uint16_t>(get(6, 2));
  h.sequence = get(8, 4);
  h.length = get(12, 4);
  if (h.magic != kMagic) return fail(EPROTO, "not a message of the verbena control protocol");
  if (h.length != packet.size() - kHeaderSize) {
    return fail(EPROTO, "control message with a wrong length field");
  }
  return h;
}

const char* message_name(MessageType type) {
  switch (type) {
#define VERBENA_MESSAGE_NAME(id, number) \
  case MessageType::id:                  \
    return &#id[1];
    VERBENA_MESSAGE_TYPES(VERBENA_MESSAGE_NAME)
#undef VERBENA_MESSAGE_NAME
  }
  return "unknown";
}

Failure<Error> malformed(MessageType type) {
  return fail(EPROTO, std::string("malformed control message ") + message_name(type));
}

}  // namespace verbena::control
