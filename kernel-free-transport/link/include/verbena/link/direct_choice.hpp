// Whether the large payloads of a ring come faster straight from the writer's memory (PeerMemory)
// or through the ring. That depends on whose cache has them, on what the system's copy is worth
// beside ours, and on how far apart the two processors are, which changes while they run. So the
// reader tries: from time to time some come the other way, and that stays if it was faster.
//
// Two prices are measured. Work: from when a part of a payload is found until the last of it is
// where it belongs; a median, as readers and writers are interrupted. And pace, at which payloads
// come: where a writer's processor also reads, or is the reader's, too, what the writer spends on a
// ring is half of the price, and the reader sees it nowhere else. Where payloads come seldom, pace
// says nothing.
//
// Part of a reader, under its receive lock. While it tries, some of the large payloads cost two
// readings of the clock; all other packets a comparison.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "verbena/base/types.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/wire/datagram.hpp"

namespace verbena::link {

class DirectChoice {
 public:
  explicit DirectChoice(Clock clock = &monotonic_now_ns) : clock_(clock) {}

  // What the writer is to be told.
  bool prefers_direct() const noexcept { return is_direct_; }

  // Which packets it wants to know of: before and after they are handled.
  bool concerns(const wire::RxDatagram& datagram) const noexcept {
    return datagram.sender != nullptr || is_following_ || datagram.bytes.size() >= kLong;
  }
  void before(const wire::RxDatagram& datagram) noexcept;
  // `fetched`: how much of it came directly. True: the preference has changed.
  bool after(const wire::RxDatagram& datagram, std::uint64_t fetched) noexcept;

 private:
  // The parts of a large payload are longer.
  static constexpr std::size_t kLong = 2048;
  // A payload counts from here on, and if it is longer than a direct packet's, in such parts.
  static constexpr std::uint64_t kLeast = 16 * 1024;
  static constexpr std::uint64_t kMost = 256 * 1024;
  // So many for the work; for the pace, what fills a ring several times, as those take turns by it.
  static constexpr std::size_t kMeasured = 9;
  static constexpr std::uint64_t kPaced = 4 * 1024 * 1024;
  // The first that come the other way are on their way already, or meet pages that nobody touched.
  static constexpr std::uint32_t kUntilSettled = 4;
  // Payloads between two trials: twice as many each time one has changed nothing.
  static constexpr std::uint32_t kRestAtFirst = 16;
  static constexpr std::uint32_t kRestMost = 16 * 1024;

  enum class Step : std::uint8_t { kRest, kThisWay, kOtherWay };
  struct Price {  // of a MiB
    TimeNs work = 0;
    TimeNs pace = 0;
  };

  bool is_measuring() const noexcept { return step_ != Step::kRest; }
  bool finishes(const wire::RxDatagram& datagram) noexcept;
  bool came(bool directly, std::uint64_t worked_on) noexcept;
  bool measure(std::uint64_t worked_on) noexcept;
  void start(Step step, std::uint32_t left) noexcept;
  bool is_better(const Price& price) const noexcept;
  bool decide(bool stays) noexcept;

  Clock clock_;
  bool is_direct_ = true;
  Step step_ = Step::kRest;
  std::uint32_t left_ = kRestAtFirst;  // payloads until the next step, or until they are measured
  std::uint32_t rest_ = kRestAtFirst;
  Price price_of_this_way_;
  // Of this step: for a MiB each; all that has come, and since when.
  std::array<TimeNs, kMeasured> works_{};
  std::size_t measured_ = 0;
  std::uint64_t bytes_ = 0;
  TimeNs since_ = 0;
  // The payload that comes in parts, and since when; its first part is what one is found by.
  bool is_following_ = false;
  std::uint32_t qpn_ = 0;
  std::uint64_t followed_ = 0;
  TimeNs begin_ = 0;
};

}  // namespace verbena::link
