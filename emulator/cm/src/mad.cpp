// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm/mad.hpp"

#include <utility>

namespace verbena::cm {
namespace {

template <std::size_t I = 0>
std::optional<Message> parse_message(std::uint16_t attribute, std::span<const std::uint8_t> body) {
  if constexpr (I == std::variant_size_v<Message>) {
    return std::nullopt;
  } else {
    using M = std::variant_alternative_t<I, Message>;
    if (M::kAttribute != attribute) return parse_message<I + 1>(attribute, body);
    M message;
    M::visit(message, FieldReader(body));
    return message;
  }
}

}  // namespace

std::optional<Mad> parse_mad(std::span<const std::uint8_t> bytes) {
  if (bytes.size() != kMadSize) return std::nullopt;
  MadHeader header;
  MadHeader::visit(header, FieldReader(bytes));
  if (header.base_version != 1 || header.management_class != kClassCm ||
      header.class_version != kClassVersion || header.method != kMethodSend) {
    return std::nullopt;
  }
  std::optional<Message> message =
      parse_message(header.attribute_id, bytes.subspan(kMadHeaderSize));
  if (!message) return std::nullopt;
  return Mad{header.transaction_id, header.attribute_modifier, std::move(*message)};
}

MadBytes write_mad(const Mad& mad) {
  MadBytes bytes{};
  MadHeader header;
  header.transaction_id = mad.transaction_id;
  header.attribute_modifier = mad.attribute_modifier;
  const std::span<std::uint8_t> body = std::span(bytes).subspan(kMadHeaderSize);
  std::visit(
      [&](const auto& message) {
        using M = std::decay_t<decltype(message)>;
        header.attribute_id = M::kAttribute;
        M::visit(message, FieldWriter(body));
      },
      mad.message);
  MadHeader::visit(header, FieldWriter(bytes));
  return bytes;
}

const char* name_of(const Message& message) {
  static constexpr const char* kNames[] = {"REQ",  "MRA",      "REJ",      "REP", "RTU", "DREQ",
                                           "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"};
  return kNames[message.index()];
}

}  // namespace verbena::cm
