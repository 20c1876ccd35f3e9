// SPDX-License-Identifier: BSD-2-Clause
// Decodes any packet as the type that its header names. A message that decodes must encode to the
// same bytes, because the format has one spelling for each value.
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "samples.hpp"
#include "verbena/base/check.hpp"
#include "verbena/control/codec.hpp"

namespace verbena::control {
namespace {

template <typename Message>
void try_as(MessageType type, std::uint32_t sequence, std::span<const std::uint8_t> payload) {
  if (type != Message::kType) return;
  const auto message = decode<Message>(payload);
  if (!message) return;
  const std::vector<std::uint8_t> again = encode(*message, sequence);
  VERBENA_CHECK(std::vector<std::uint8_t>(again.begin() + kHeaderSize, again.end()) ==
                std::vector<std::uint8_t>(payload.begin(), payload.end()));
}

template <typename... Message>
void try_all(std::tuple<Message...>*, const Header& header, std::span<const std::uint8_t> payload) {
  (try_as<Message>(header.message_type(), header.sequence, payload), ...);
}

}  // namespace
}  // namespace verbena::control

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbena::control;
  const std::span<const std::uint8_t> packet(data, size);
  const auto header = decode_header(packet);
  if (header) {
    try_all(static_cast<AllMessages*>(nullptr), *header, packet.subspan(kHeaderSize));
  }
  return 0;
}
