// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/capture/pcapng.hpp"

#include <algorithm>
#include <cstring>

namespace verbena::capture {
namespace {

constexpr std::uint32_t kSectionHeader = 0x0a0d0d0a;
constexpr std::uint32_t kInterfaceDescription = 1;
constexpr std::uint32_t kInterfaceStatistics = 5;
constexpr std::uint32_t kEnhancedPacket = 6;
constexpr std::uint32_t kByteOrderMagic = 0x1a2b3c4d;
constexpr std::uint16_t kLinkTypeRaw = 101;  // packets begin with the IP header

constexpr std::uint16_t kEndOfOptions = 0;
constexpr std::uint16_t kComment = 1;
constexpr std::uint16_t kApplication = 4;  // for sections
constexpr std::uint16_t kName = 2;         // for interfaces
constexpr std::uint16_t kDescription = 3;
constexpr std::uint16_t kTimeResolution = 9;
constexpr std::uint16_t kFlags = 2;      // for packets
constexpr std::uint16_t kStartTime = 2;  // for statistics
constexpr std::uint16_t kEndTime = 3;
constexpr std::uint16_t kReceived = 4;
constexpr std::uint16_t kDropped = 5;

constexpr std::uint8_t kNanoseconds = 9;
constexpr std::size_t kTextMax = 0xffff;

}  // namespace

template <typename T>
void Pcapng::put(T value) {
  put_bytes(&value, sizeof value);
}

void Pcapng::put_bytes(const void* bytes, std::size_t size) {
  const auto* const begin = static_cast<const std::uint8_t*>(bytes);
  out_.insert(out_.end(), begin, begin + size);
  // Pads to the next word of the block.
  out_.resize(block_begins_at_ + (out_.size() - block_begins_at_ + 3) / 4 * 4);
}

void Pcapng::put_time(TimeNs time) {
  put(static_cast<std::uint32_t>(time >> 32));
  put(static_cast<std::uint32_t>(time));
}

void Pcapng::put_option(std::uint16_t code, const void* bytes, std::size_t size) {
  put(static_cast<std::uint32_t>(code | size << 16));
  put_bytes(bytes, size);
}

void Pcapng::put_text(std::uint16_t code, std::string_view text) {
  put_option(code, text.data(), std::min(text.size(), kTextMax));
}

void Pcapng::begin_block(std::uint32_t type) {
  block_begins_at_ = out_.size();
  put(type);
  put(std::uint32_t{0});
}

// Writes the length at both ends of the block.
void Pcapng::end_block() {
  put(std::uint32_t{kEndOfOptions});
  const auto length = static_cast<std::uint32_t>(out_.size() - block_begins_at_ + 4);
  put(length);
  std::memcpy(out_.data() + block_begins_at_ + 4, &length, sizeof length);
}

void Pcapng::begin_section(std::string_view application) {
  begin_block(kSectionHeader);
  put(kByteOrderMagic);
  put(std::uint32_t{1});  // version 1.0, as two halves
  put(~std::uint64_t{0});
  put_text(kApplication, application);
  end_block();
}

void Pcapng::add_interface(std::string_view name, std::string_view description) {
  begin_block(kInterfaceDescription);
  put(std::uint32_t{kLinkTypeRaw});
  put(std::uint32_t{0});  // no limit
  put_text(kName, name);
  put_text(kDescription, description);
  put_option(kTimeResolution, &kNanoseconds, 1);
  end_block();
}

void Pcapng::add_packet(const Packet& packet) {
  begin_block(kEnhancedPacket);
  put(packet.interface);
  put_time(packet.time);
  put(static_cast<std::uint32_t>(packet.bytes.size()));
  put(static_cast<std::uint32_t>(packet.length));
  put_bytes(packet.bytes.data(), packet.bytes.size());
  const auto flags = static_cast<std::uint32_t>(packet.direction);
  put_option(kFlags, &flags, sizeof flags);
  if (!packet.comment.empty()) put_text(kComment, packet.comment);
  end_block();
}

void Pcapng::add_statistics(const Statistics& statistics) {
  const auto put_time_option = [this](std::uint16_t code, TimeNs time) {
    const std::uint32_t words[] = {static_cast<std::uint32_t>(time >> 32),
                                   static_cast<std::uint32_t>(time)};
    put_option(code, words, sizeof words);
  };
  begin_block(kInterfaceStatistics);
  put(statistics.interface);
  put_time(statistics.end);
  put_time_option(kStartTime, statistics.begin);
  put_time_option(kEndTime, statistics.end);
  put_option(kReceived, &statistics.received, sizeof statistics.received);
  put_option(kDropped, &statistics.dropped, sizeof statistics.dropped);
  end_block();
}

namespace {

// Visits the whole blocks at the beginning of these bytes, in order. Returns their size.
template <typename Visit>
std::size_t for_each_block(std::span<const std::uint8_t> bytes, Visit&& visit) {
  std::size_t at = 0;
  while (at + 12 <= bytes.size()) {
    std::uint32_t words[3];  // type, length, and a packet's interface
    std::memcpy(words, bytes.data() + at, sizeof words);
    if (words[1] < 12 || words[1] > bytes.size() - at) break;
    visit(words[0], words[2]);
    at += words[1];
  }
  return at;
}

}  // namespace

std::vector<std::uint32_t> interfaces_of_packets(std::span<const std::uint8_t> blocks) {
  std::vector<std::uint32_t> interfaces;
  for_each_block(blocks, [&](std::uint32_t type, std::uint32_t interface) {
    if (type == kEnhancedPacket) interfaces.push_back(interface);
  });
  return interfaces;
}

std::size_t whole_blocks(std::span<const std::uint8_t> blocks, std::size_t size) {
  return for_each_block(blocks.first(size), [](std::uint32_t, std::uint32_t) {});
}

}  // namespace verbena::capture
