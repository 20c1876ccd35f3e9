#include "division.hpp"

#include <algorithm>

#include "verbena/wire/bth.hpp"

namespace verbena::link {
namespace {

constexpr std::size_t kLeast = wire::Bth::kSize + wire::kIcrcSize;
constexpr std::size_t kLongest = wire::kMaxPacket + wire::kIcrcSize;
// The segments of one send of ours are numbered 0, 1, 2 ..., and a network card on the way may put
// the end of one before the beginning of the next.
constexpr std::uint32_t kIdsOfSegments = 128;

std::uint16_t& step_of(Division::Steps& steps, Division::Bytes buffer) {
  return steps[buffer[0] % steps.size()];
}

bool is_packet(const wire::IcrcFlow& flow, Division::Bytes bytes, std::uint32_t ids_accepted) {
  return bytes.size() >= kLeast &&
         flow.of_size(bytes.size()).verify(bytes, 0, ids_accepted).has_value();
}

// Whether it consists of such packets to the end.
bool divides(const wire::IcrcFlow& flow, Division::Bytes buffer, std::size_t step,
             std::uint32_t ids_accepted) {
  while (!buffer.empty()) {
    const std::size_t size = std::min(step, buffer.size());
    if (!is_packet(flow, buffer.first(size), ids_accepted)) return false;
    buffer = buffer.subspan(size);
  }
  return true;
}

// As one packet, if nothing better is found. Few identifications first: by chance a wrong division
// fits one in so many of all.
std::size_t divide_by_trial(const wire::IcrcFlow& flow, Division::Bytes buffer,
                            std::uint32_t ids_accepted) {
  if (is_packet(flow, buffer, 1)) return buffer.size();
  for (const std::uint32_t ids : {std::min(kIdsOfSegments, ids_accepted), ids_accepted}) {
    for (std::size_t step = kLeast; step < std::min(buffer.size(), kLongest + 1); step += 4) {
      if (divides(flow, buffer, step, ids)) return step;
    }
  }
  return buffer.size();
}

// What the kernel does not know of: a bundle of ours or one packet, damaged perhaps, and then there
// may be many like it. The packets of a bundle are for one queue pair: a look at where the second
// one says so spares most checksums.
std::size_t divide_bundle(const wire::IcrcFlow& flow, Division::Bytes buffer) {
  if (is_packet(flow, buffer, 1)) return buffer.size();
  const Qpn dest_qp = wire::BthView(buffer.data()).dest_qp();
  const std::size_t most = std::min(buffer.size() - kLeast, kLongest);
  for (std::size_t step = kLeast; step <= most; step += 4) {
    const auto second = buffer.subspan(step);
    if (wire::BthView(second.data()).dest_qp() == dest_qp &&
        divides(flow, buffer, step, kIdsOfSegments)) {
      return step;
    }
  }
  return buffer.size();
}

}  // namespace

void Division::was_told(Bytes buffer, std::size_t step, bool is_plain, Steps& steps) noexcept {
  if (to_ask_ == 0 || buffer.size() < kLeast) return;
  std::uint16_t& known = step_of(steps, buffer);
  const bool is_expected = is_plain && std::min<std::size_t>(known, buffer.size()) == step;
  to_ask_ = is_expected ? to_ask_ - 1 : until_sure_;
  if (!is_expected) known = static_cast<std::uint16_t>(step);
}

Division::Found Division::find(const wire::IcrcFlow& flow, Bytes buffer, std::uint32_t ids_accepted,
                               Steps& steps) noexcept {
  if (buffer.size() < kLeast) return {buffer.size(), false};
  std::uint16_t& known = step_of(steps, buffer);
  const std::size_t expected = std::min<std::size_t>(known, buffer.size());
  const bool was_asked = must_ask();
  if (is_packet(flow, buffer.first(expected), 1)) {
    if (was_asked) {
      --to_ask_;
    } else if (++as_expected_ == kUntilSureMax) {
      until_sure_ = kUntilSure;
    }
    return {expected, true};
  }
  if (!was_asked) {
    as_expected_ = 0;
    until_sure_ = std::min(2 * until_sure_, kUntilSureMax);
  }
  to_ask_ = until_sure_;
  known = static_cast<std::uint16_t>(was_asked ? divide_bundle(flow, buffer)
                                               : divide_by_trial(flow, buffer, ids_accepted));
  return {known, false};
}

}  // namespace verbena::link
