// A decorator that makes any link as bad as a network can be: loss, damage, duplication,
// reordering, delay, a slow line; for one queue pair or for all. Faults strike what is sent. While
// no fault is set it costs a load. All chance comes from one seed and is drawn per sending queue
// pair, so that a queue pair that sends the same packets meets the same faults again.
//
// Threads: as Link says; settings may change at any time from any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "verbena/base/lock.hpp"
#include "verbena/base/random.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/link/link.hpp"

namespace verbena::link {

// Chances in parts per million. Each packet draws once for each chance that is not 0, in this
// order (a dropped packet draws no further, a damaged one draws the place of the damage next).
struct FaultSettings {
  std::uint32_t drop_ppm = 0;
  std::uint32_t corrupt_ppm = 0;
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t reorder_ppm = 0;  // held back for reorder_ns while others pass
  TimeNs reorder_ns = 200'000;
  TimeNs delay_ns = 0;
  TimeNs jitter_ns = 0;                // up to this much more delay, evenly; drawn last
  std::uint64_t bytes_per_second = 0;  // 0: no limit; packets from BTH to ICRC count

  bool is_none() const {
    return (drop_ppm | corrupt_ppm | duplicate_ppm | reorder_ppm) == 0 && delay_ns == 0 &&
           jitter_ns == 0 && bytes_per_second == 0;
  }
  bool operator==(const FaultSettings&) const = default;
};

// Packets that met each fault; counted while any fault is set.
struct FaultStatistics {
  OwnedCounter seen;  // that a fault could have met
  OwnedCounter dropped;
  OwnedCounter corrupted;
  OwnedCounter duplicated;
  OwnedCounter reordered;
  OwnedCounter delayed;   // held back by delay, jitter or rate
  OwnedCounter overflow;  // lost because too much was held back already
};

class FaultLink final : public Link {
 public:
  // What is held back at most, as in a router's buffer.
  static constexpr std::size_t kHeldBytesMax = 16u << 20;

  FaultLink(std::unique_ptr<Link> inner, std::uint64_t seed, Clock clock = &monotonic_now_ns);
  ~FaultLink() override;

  // For every queue pair that has no setting of its own. A rate is the rate of all of them.
  void set_for_all(const FaultSettings& settings);
  // For one sending queue pair; a setting without faults spares it from the general one.
  void set_for(Qpn flow, const FaultSettings& settings);
  // No faults for anyone any more. What is held back still goes out at its time.
  void clear();

  std::size_t send(wire::TxBatch& batch, Qpn flow) noexcept override;
  std::size_t send_damaged(wire::TxBatch& batch, Qpn flow, Damage damage) noexcept override;
  // Also sends what was held back until now.
  std::size_t receive(RxSink& sink, std::size_t budget) noexcept override;
  int wait_fd() const noexcept override { return inner_->wait_fd(); }
  int wake_fd() const noexcept override { return inner_->wake_fd(); }
  int wake_edges() const noexcept override { return inner_->wake_edges(); }
  void silence() noexcept override { inner_->silence(); }
  bool prepare_wait() noexcept override { return inner_->prepare_wait(); }
  void end_wait() noexcept override { inner_->end_wait(); }
  TimeNs next_timeout() const noexcept override;
  std::uint32_t capacity_packets(std::size_t packet_bytes) const noexcept override {
    return inner_->capacity_packets(packet_bytes);
  }

  // What is sent or received passes unchanged, and nothing of before is held back.
  bool is_idle() const noexcept { return !active_.read(); }
  const FaultStatistics& statistics() const { return statistics_; }
  Link& inner() { return *inner_; }

 private:
  class Line;  // settings, the packets held back, the burst on its way

  void publish();

  std::unique_ptr<Link> inner_;
  Clock clock_;
  Published<bool> active_{false};  // a fault is set, or something is held back
  Published<TimeNs> next_due_{kNever};
  FaultStatistics statistics_;

  Lock lock_;  // guards the line
  std::unique_ptr<Line> line_;
};

}  // namespace verbena::link
