// A decorator that makes any link as bad as a network can be: loss, duplication, reordering,
// delay, damage, a slow line; for one queue pair or for all. Faults strike what is sent. While no
// fault is set it costs one load. All chance comes from one seed and is drawn per sending queue
// pair, so that a queue pair that sends the same packets meets the same faults again.
//
// Threads: as Link says; settings may change at any time from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "verbena/base/lock.hpp"
#include "verbena/base/random.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/link/link.hpp"

namespace verbena::link {

// Chances in parts per million, each decided on its own, in this order, for each packet.
struct FaultSettings {
  std::uint32_t drop_ppm = 0;
  std::uint32_t corrupt_ppm = 0;
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t reorder_ppm = 0;  // held back until three later packets have gone, or 1 ms
  TimeNs delay_ns = 0;
  TimeNs jitter_ns = 0;                // up to this much more delay, evenly
  std::uint64_t bytes_per_second = 0;  // 0: no limit. IP and UDP headers are not counted

  bool is_none() const { return *this == FaultSettings{}; }
  bool operator==(const FaultSettings&) const = default;
};

// Packets that met each fault.
struct FaultStatistics {
  OwnedCounter seen;
  OwnedCounter dropped;
  OwnedCounter corrupted;
  OwnedCounter duplicated;
  OwnedCounter reordered;
  OwnedCounter delayed;   // by delay or by rate
  OwnedCounter overflow;  // lost because too many were held back already
};

class FaultLink final : public Link {
 public:
  // What is held back at most, as in a router's buffer.
  static constexpr std::size_t kHeldBytesMax = 16u << 20;
  static constexpr TimeNs kReorderHoldNs = 1'000'000;
  static constexpr std::uint32_t kReorderPackets = 3;

  FaultLink(std::unique_ptr<Link> inner, std::uint64_t seed, Clock clock = &monotonic_now_ns);
  ~FaultLink() override;

  // For every queue pair that has no setting of its own.
  void set_for_all(const FaultSettings& settings) noexcept;
  // For one sending queue pair; a setting without faults spares it from the general one.
  void set_for(Qpn flow, const FaultSettings& settings) noexcept;
  // No faults for anyone any more. What is held back still goes out at its time.
  void clear() noexcept;

  std::size_t send(wire::TxBatch& batch, Qpn flow) noexcept override;
  std::size_t send_damaged(wire::TxBatch& batch, Qpn flow, Damage damage) noexcept override;
  // Also sends what was held back until now.
  std::size_t receive(RxSink& sink, std::size_t budget) noexcept override;
  int wait_fd() const noexcept override { return inner_->wait_fd(); }
  TimeNs next_timeout() const noexcept override;
  std::uint32_t capacity_packets(std::size_t packet_bytes) const noexcept override {
    return inner_->capacity_packets(packet_bytes);
  }

  const FaultStatistics& statistics() const { return statistics_; }
  Link& inner() { return *inner_; }

 private:
  struct Flow;
  struct Held;
  struct Later;
  class Burst;

  Flow& flow_state(Qpn flow);
  const FaultSettings& settings_of(Qpn flow) const;
  void judge(const wire::TxBatch& batch, const wire::TxBatch::Packet& packet, Flow& flow,
             TimeNs now, Burst& burst);
  void hold(const wire::TxBatch& batch, const wire::TxBatch::Packet& packet, Flow& flow, TimeNs due,
            std::optional<Damage> damage);
  void release_overtaken(Flow& flow, Burst& burst);
  void release_due(TimeNs now);
  bool emit(const Held& held);
  void rearm();

  std::unique_ptr<Link> inner_;
  Clock clock_;
  std::uint64_t seed_;
  Published<bool> active_{false};  // some fault is set, or something is held back
  Published<TimeNs> next_due_{kNever};

  mutable Lock lock_;  // guards all below
  FaultSettings general_;
  std::unordered_map<std::uint32_t, FaultSettings> special_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Flow>> flows_;
  std::vector<Held> held_;  // a heap, the earliest on top
  std::size_t held_bytes_ = 0;
  std::uint64_t sequence_ = 0;
  std::unique_ptr<Burst> burst_;
  FaultStatistics statistics_;
};

}  // namespace verbena::link
