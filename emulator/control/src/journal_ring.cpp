// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/control/journal_ring.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace verbena::control {
namespace {

static_assert(std::is_trivially_copyable_v<JournalRecord>);

constexpr std::uint64_t size_of(std::size_t text) {
  return (sizeof(JournalRecord) + text + 7) / 8 * 8;
}

}  // namespace

void JournalRing::copy_in(std::uint64_t position, const void* from, std::size_t size) noexcept {
  if (size == 0) return;  // An empty text may have no address, which memcpy forbids.
  const std::size_t at = position % kBytes;
  const std::size_t first = std::min(size, kBytes - at);
  std::memcpy(bytes_.data() + at, from, first);
  std::memcpy(bytes_.data(), static_cast<const std::uint8_t*>(from) + first, size - first);
}

void JournalRing::copy_out(std::uint64_t position, void* to, std::size_t size) const noexcept {
  const std::size_t at = position % kBytes;
  const std::size_t first = std::min(size, kBytes - at);
  std::memcpy(to, bytes_.data() + at, first);
  std::memcpy(static_cast<std::uint8_t*>(to) + first, bytes_.data(), size - first);
}

bool JournalRing::put(JournalRecord record, std::string_view text) noexcept {
  constexpr std::size_t kTextMost = 1024;
  text = text.substr(0, kTextMost);
  record.text_size = static_cast<std::uint16_t>(text.size());
  const std::uint64_t head = head_.read();
  if (head - tail_.read() + size_of(text.size()) > kBytes) {
    lost_.add();
    return false;
  }
  copy_in(head, &record, sizeof record);
  copy_in(head + sizeof record, text.data(), text.size());
  head_.publish(head + size_of(text.size()));
  return true;
}

bool JournalReader::take(JournalRing& ring, JournalRecord& record, std::string& text) {
  const std::uint64_t there = ring.head_.read() - tail_;
  if (is_broken_ || there == 0) return false;
  is_broken_ = there < sizeof record || there > JournalRing::kBytes;
  if (is_broken_) return false;
  ring.copy_out(tail_, &record, sizeof record);
  is_broken_ = size_of(record.text_size) > there;
  if (is_broken_) return false;
  text.resize(record.text_size);
  ring.copy_out(tail_ + sizeof record, text.data(), text.size());
  record.opcode.back() = '\0';
  tail_ += size_of(record.text_size);
  ring.tail_.publish(tail_);
  return true;
}

std::uint64_t JournalReader::take_lost(const JournalRing& ring) noexcept {
  const std::uint64_t all = ring.lost_.read();
  const std::uint64_t more = all > lost_ ? all - lost_ : 0;
  lost_ = all;
  return more;
}

}  // namespace verbena::control
