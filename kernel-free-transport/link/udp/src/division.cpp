// SPDX-License-Identifier: BSD-2-Clause
#include "division.hpp"

#include <algorithm>

#include "verbena/base/check.hpp"
#include "verbena/wire/bth.hpp"
#include "verbena/wire/bytes.hpp"
#include "verbena/wire/opcode.hpp"

namespace verbena::link {
namespace {

constexpr std::size_t kLeast = wire::Bth::kSize + wire::kIcrcSize;
constexpr std::size_t kLongest = wire::kMaxPacket + wire::kIcrcSize;
// The segments of one send of ours are numbered 0, 1, 2 ..., and a network card on the way may put
// the end of one before the beginning of the next.
constexpr std::uint32_t kIdsOfSegments = 128;

// Whether a packet may begin there, which spares most checksums.
bool may_begin(Cutter::Bytes bytes) {
  const wire::BthView bth(bytes.data());
  return bth.version() == 0 && wire::row_of(bth.opcode()).valid;
}

// Whether, behind so many bytes, one for the same queue pair may.
bool may_follow(Cutter::Bytes packet, std::size_t length) {
  if (packet.size() < length + kLeast) return false;
  const auto next = packet.subspan(length);
  return may_begin(next) &&
         wire::BthView(next.data()).dest_qp() == wire::BthView(packet.data()).dest_qp();
}

}  // namespace

Cutter::Piece Cutter::next() noexcept {
  if (rest_.size() < kLeast) return cut(rest_.size(), false);
  if (origin_.segment_bytes != 0) return cut_segment();
  std::uint16_t& known = lengths_[rest_[0] % lengths_.size()];
  const std::size_t expected = std::min<std::size_t>(known, rest_.size());
  if (expected >= kLeast && is_packet_of_ours(rest_.first(expected))) return cut(expected, true);
  return cut_unexpected(known);
}

Cutter::Piece Cutter::cut_segment() noexcept {
  const std::size_t length = std::min(origin_.segment_bytes, rest_.size());
  if (length < kLeast) return cut(length, false);
  std::uint16_t& known = lengths_[rest_[0] % lengths_.size()];
  const auto ip_id = identify(rest_.first(length));
  const bool is_expected = std::min<std::size_t>(known, rest_.size()) == length;
  if (!is_expected || (next_id_ == 0 && ip_id != 0)) is_clear_ = false;
  if (!is_expected && ip_id) known = static_cast<std::uint16_t>(length);
  return cut(length, ip_id.has_value());
}

Cutter::Piece Cutter::cut_unexpected(std::uint16_t& known) noexcept {
  std::size_t length = length_in_bundle();
  if (length == 0 || (origin_.maybe_segments && !origin_.maybe_bundle)) is_clear_ = false;
  if (length != 0) {
    known = static_cast<std::uint16_t>(length);
    return cut(length, true);
  }
  if (origin_.maybe_segments && may_try_) {
    origin_.segment_bytes = length_of_segments();
    if (origin_.segment_bytes != 0) return cut_segment();
  }
  may_try_ = false;
  if (known >= kLeast && may_follow(rest_, known)) return cut(known, false);
  return cut(rest_.size(), identify(rest_).has_value());
}

// Of the packet that is all the rest, or of one behind which another one for its queue pair may
// begin. 0: there is none.
std::size_t Cutter::length_in_bundle() noexcept {
  if (rest_.size() <= kLongest && is_packet_of_ours(rest_)) return rest_.size();
  const bool is_one = !origin_.maybe_bundle && !origin_.maybe_segments;
  if (is_one || !may_try_) return 0;
  for (std::size_t length = kLeast; length <= kLongest && length < rest_.size(); length += 4) {
    if (may_follow(rest_, length) && is_packet_of_ours(rest_.first(length))) return length;
  }
  return 0;
}

// If all the rest are segments, whoever they are for. Few identifications first: by chance a wrong
// division fits one in so many of all. 0: they are not.
std::size_t Cutter::length_of_segments() const noexcept {
  for (const std::uint32_t ids : {std::min(kIdsOfSegments, ids_accepted_), ids_accepted_}) {
    for (std::size_t step = kLeast; step <= kLongest && step < rest_.size(); step += 4) {
      if (are_segments(rest_, step, ids)) return step;
    }
  }
  return 0;
}

bool Cutter::are_segments(Bytes bytes, std::size_t step,
                          std::uint32_t ids_accepted) const noexcept {
  const wire::IcrcFlow::Sized sized = flow_.of_size(step);
  for (; bytes.size() > step; bytes = bytes.subspan(step)) {
    const Bytes behind = bytes.subspan(step);
    if (behind.size() < kLeast || !may_begin(behind) ||
        !sized.verify(bytes.first(step), 0, ids_accepted)) {
      return false;
    }
  }
  return flow_.of_size(bytes.size()).verify(bytes, 0, ids_accepted).has_value();
}

bool Cutter::is_packet_of_ours(Bytes bytes) noexcept {
  if (sized_.size() != bytes.size()) sized_.be_of(flow_, bytes.size());
  const Bytes packet = bytes.first(bytes.size() - wire::kIcrcSize);
  return sized_.compute(packet, next_id_) == wire::load_le32(packet.data() + packet.size());
}

std::optional<std::uint16_t> Cutter::identify(Bytes bytes) noexcept {
  if (sized_.size() != bytes.size()) sized_.be_of(flow_, bytes.size());
  const auto ip_id = sized_.verify(bytes, next_id_, ids_accepted_);
  if (ip_id && *ip_id != 0 && *ip_id != next_id_) ++foreign_ids_;
  return ip_id;
}

Cutter::Piece Cutter::cut(std::size_t length, bool is_packet) noexcept {
  VERBENA_CHECK(length <= rest_.size());
  const Bytes bytes = rest_.first(length);
  rest_ = rest_.subspan(length);
  ++next_id_;
  return {bytes, is_packet};
}

void Asking::was(bool is_clear) noexcept {
  if (left_ != 0) {
    left_ = is_clear ? left_ - 1 : until_sure_;
  } else if (is_clear) {
    if (++clear_ == kUntilSureMax) until_sure_ = kUntilSure;
  } else {
    clear_ = 0;
    until_sure_ = std::min(2 * until_sure_, kUntilSureMax);
    left_ = until_sure_;
  }
}

}  // namespace verbena::link
