#include "verbena/queue/payload.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "verbena/memory/ordered_copy.hpp"

namespace verbena::queue {
namespace {

// A word at the end is stored last and by ourselves: how the rest is copied promises no order.
constexpr std::size_t kTail = 8;
// At once, to memory that only the memory port reaches.
constexpr std::size_t kStep = 4096;

}  // namespace

Payload::Placed Payload::place_pieces(std::size_t from, std::size_t length,
                                      const memory::Pin& to) const noexcept {
  std::size_t piece = from / bytes_.size();
  std::size_t skipped = from % bytes_.size();
  for (std::size_t done = 0; done < length; ++piece, skipped = 0) {
    const std::size_t part = std::min(bytes_.size() - skipped, length - done);
    if (!to.write(done, bytes_.data() + piece * step_ + skipped, part)) return Placed::kNoTarget;
    done += part;
  }
  return Placed::kDone;
}

bool Payload::fetch(std::size_t offset, std::size_t length,
                    std::span<const wire::FetchTarget> to) const noexcept {
  std::array<wire::MemoryRange, wire::DirectPayload::kRangesMax> from;
  std::size_t count = 0;
  std::uint64_t skipped = begin_ + offset;
  std::uint64_t left = length;
  for (std::uint32_t i = 0; i < direct_->count && left != 0; ++i) {
    const wire::MemoryRange& range = direct_->ranges[i];
    if (skipped >= range.length) {
      skipped -= range.length;
      continue;
    }
    const std::uint64_t part = std::min(range.length - skipped, left);
    from[count++] = {range.address + skipped, part};
    left -= part;
    skipped = 0;
  }
  return left == 0 && sender_->fetch(to, {from.data(), count}, direct_->witness);
}

bool Payload::copy(std::size_t offset, std::span<std::uint8_t> to) const noexcept {
  if (direct_ != nullptr) {
    const wire::FetchTarget target{to.data(), to.size()};
    return fetch(offset, to.size(), {&target, 1});
  }
  std::memcpy(to.data(), bytes_.data() + begin_ + offset, to.size());
  return true;
}

Payload::Placed Payload::fetch_to(std::size_t offset, std::size_t length,
                                  const memory::Pin& to) const noexcept {
  if (std::uint8_t* at = to.direct()) {
    std::array<std::uint8_t, kTail> end;
    const std::size_t tail = std::min(length, kTail);
    const wire::FetchTarget targets[] = {{at, length - tail}, {end.data(), tail}};
    const auto used = std::span(targets).subspan(length == tail ? 1 : 0);
    if (!fetch(offset, length, used)) return Placed::kNoSource;
    memory::ordered_copy(at + (length - tail), end.data(), tail);
    return Placed::kDone;
  }
  std::array<std::uint8_t, kStep> step;
  for (std::size_t done = 0; done < length;) {
    const std::size_t part = std::min(kStep, length - done);
    if (!copy(offset + done, {step.data(), part})) return Placed::kNoSource;
    if (!to.write(done, step.data(), part)) return Placed::kNoTarget;
    done += part;
  }
  return Placed::kDone;
}

}  // namespace verbena::queue
