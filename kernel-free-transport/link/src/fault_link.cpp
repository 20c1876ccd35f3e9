#include "verbena/link/fault_link.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace verbena::link {
namespace {

using wire::TxBatch;

// What the inner link would not take is offered again after this long.
constexpr TimeNs kFullRetryNs = 100'000;

struct Held {
  TimeNs due = 0;
  std::uint64_t sequence = 0;  // first in, first out among those due at once
  Qpn flow;
  wire::Destination destination;
  std::optional<Damage> damage;
  TxBatch::Packet before{};  // of what kind it was
  std::vector<std::uint8_t> bytes;

  // For a heap with the earliest on top.
  bool operator<(const Held& other) const {
    return std::pair(due, sequence) > std::pair(other.due, other.sequence);
  }
};

struct FlowState {
  Random random;
  TimeNs line_free = 0;
};

}  // namespace

// All that is behind the lock. Packets that may go at once gather in a burst, which leaves as one
// batch; the others wait in a heap.
class FaultLink::Line {
 public:
  Line(Link& inner, std::uint64_t seed, FaultStatistics& statistics)
      : inner_(inner),
        seed_(seed),
        statistics_(statistics),
        room_(std::make_unique_for_overwrite<std::uint8_t[]>(kRoomBytes)),
        burst_({room_.get(), kRoomBytes}) {}

  void set_general(const FaultSettings& s) { general_ = s; }
  void set_special(Qpn flow, const FaultSettings& s) { special_[flow.value()] = s; }
  void clear() {
    general_ = {};
    special_.clear();
  }
  bool has_faults() const {
    const auto harms = [](const auto& entry) { return !entry.second.is_none(); };
    return !general_.is_none() || std::any_of(special_.begin(), special_.end(), harms);
  }
  bool holds_any() const { return !held_.empty(); }
  TimeNs next_due() const { return held_.empty() ? kNever : held_.front().due; }

  // Judges every packet; what is not lost or held back has gone to the inner link on return.
  void pass(const TxBatch& batch, Qpn flow, TimeNs now) {
    const auto special = special_.find(flow.value());
    const bool is_special = special != special_.end();
    const FaultSettings& settings = is_special ? special->second : general_;
    FlowState& state = state_of(flow);
    TimeNs& line_free = is_special ? state.line_free : general_line_free_;
    for (const TxBatch::Packet& p : batch.packets()) {
      judge(batch, p, flow, settings, state.random, line_free, now);
    }
    flush(now);
  }

  void release_due(TimeNs now) {
    while (!held_.empty() && held_.front().due <= now) {
      std::pop_heap(held_.begin(), held_.end());
      const Held packet = std::move(held_.back());
      held_.pop_back();
      held_bytes_ -= packet.bytes.size();
      emit(packet.bytes, packet.destination, packet.flow, packet.damage, packet.before, now);
    }
    flush(now);
  }

 private:
  static constexpr std::size_t kRoomBytes =
      TxBatch::kMaxPackets * (wire::kMaxPacket + wire::kIcrcSize);

  FlowState& state_of(Qpn flow) {
    const auto known = flows_.find(flow.value());
    if (known != flows_.end()) return known->second;
    // Neighbouring numbers must not give neighbouring streams: the seed is stirred once first.
    const std::uint64_t seed = Random(seed_ + flow.value()).next();
    return flows_.emplace(flow.value(), FlowState{Random(seed)}).first->second;
  }

  void judge(const TxBatch& batch, const TxBatch::Packet& packet, Qpn flow, const FaultSettings& s,
             Random& random, TimeNs& line_free, TimeNs now) {
    const auto strikes = [&random](std::uint32_t ppm) { return ppm > 0 && random.chance(ppm); };
    // Made before there were faults, which are for ordinary packets, and repeated as such.
    if (packet.psns != 0 && !s.is_none()) return;
    statistics_.seen.add();
    if (strikes(s.drop_ppm)) return statistics_.dropped.add();
    std::optional<Damage> damage;
    if (strikes(s.corrupt_ppm)) {
      statistics_.corrupted.add();
      damage = Damage{static_cast<std::uint32_t>(random.next())};
    }
    const bool is_doubled = strikes(s.duplicate_ppm);
    if (is_doubled) statistics_.duplicated.add();
    TimeNs wait = 0;
    if (strikes(s.reorder_ppm)) {
      statistics_.reordered.add();
      wait += s.reorder_ns;
    }
    TimeNs lateness = s.delay_ns;
    if (s.jitter_ns > 0) lateness += random.below(s.jitter_ns + 1);
    if (s.bytes_per_second > 0) {
      const std::uint64_t size = packet.length + wire::kIcrcSize;
      line_free = std::max(line_free, now) + size * 1'000'000'000u / s.bytes_per_second;
      lateness += line_free - now;
    }
    if (lateness > 0) statistics_.delayed.add();
    wait += lateness;
    for (int copy = 0; copy < (is_doubled ? 2 : 1); ++copy) {
      const auto bytes = batch.bytes_of(packet);
      const wire::Destination& to = batch.destination(packet);
      if (wait > 0) {
        hold(bytes, to, flow, damage, packet, now + wait);
      } else {
        emit(bytes, to, flow, damage, packet, now);
      }
    }
  }

  void hold(std::span<const std::uint8_t> bytes, const wire::Destination& to, Qpn flow,
            const std::optional<Damage>& damage, const TxBatch::Packet& before, TimeNs due) {
    if (held_bytes_ + bytes.size() > kHeldBytesMax) return statistics_.overflow.add();
    try {
      held_.push_back({due, sequence_++, flow, to, damage, before, {bytes.begin(), bytes.end()}});
    } catch (const std::bad_alloc&) {
      return statistics_.overflow.add();
    }
    std::push_heap(held_.begin(), held_.end());
    held_bytes_ += bytes.size();
  }

  // Into the burst, which keeps to one flow.
  void emit(std::span<const std::uint8_t> bytes, const wire::Destination& to, Qpn flow,
            const std::optional<Damage>& damage, const TxBatch::Packet& before, TimeNs now) {
    if (!burst_.empty() && (damage || !(burst_flow_ == flow))) flush(now);
    std::uint8_t* room = burst_.begin(bytes.size());
    if (room == nullptr) {
      flush(now);
      room = burst_.begin(bytes.size());
    }
    if (room == nullptr) return statistics_.overflow.add();
    std::memcpy(room, bytes.data(), bytes.size());
    burst_.commit(bytes.size(), to);
    burst_.make_as(before);
    burst_flow_ = flow;
    if (!damage) return;
    inner_.send_damaged(burst_, flow, *damage);
    burst_.clear();
  }

  void flush(TimeNs now) {
    if (burst_.empty()) return;
    const std::size_t taken = inner_.send(burst_, burst_flow_);
    for (const TxBatch::Packet& p : burst_.packets().subspan(taken)) {
      hold(burst_.bytes_of(p), burst_.destination(p), burst_flow_, std::nullopt, p,
           now + kFullRetryNs);
    }
    burst_.clear();
  }

  Link& inner_;
  std::uint64_t seed_;
  FaultStatistics& statistics_;
  FaultSettings general_;
  std::unordered_map<std::uint32_t, FaultSettings> special_;
  std::unordered_map<std::uint32_t, FlowState> flows_;
  TimeNs general_line_free_ = 0;
  std::vector<Held> held_;
  std::size_t held_bytes_ = 0;
  std::uint64_t sequence_ = 0;
  std::unique_ptr<std::uint8_t[]> room_;  // large, and untouched until there is a fault
  TxBatch burst_;
  Qpn burst_flow_;
};

FaultLink::FaultLink(std::unique_ptr<Link> inner, std::uint64_t seed, Clock clock)
    : inner_(std::move(inner)),
      clock_(clock),
      line_(std::make_unique<Line>(*inner_, seed, statistics_)) {}

FaultLink::~FaultLink() = default;

// Inactive means that nothing is held back either: a queue pair's packets then go straight to
// the inner link, and none of them can still be on its way from here on another thread.
void FaultLink::publish() {
  next_due_.publish(line_->next_due());
  active_.publish(line_->has_faults() || line_->holds_any());
}

void FaultLink::set_for_all(const FaultSettings& settings) {
  const Guard guard(lock_);
  line_->set_general(settings);
  publish();
}

void FaultLink::set_for(Qpn flow, const FaultSettings& settings) {
  const Guard guard(lock_);
  line_->set_special(flow, settings);
  publish();
}

void FaultLink::clear() {
  const Guard guard(lock_);
  line_->clear();
  publish();
}

std::size_t FaultLink::send(wire::TxBatch& batch, Qpn flow) noexcept {
  if (!active_.read()) return inner_->send(batch, flow);
  const Guard guard(lock_);
  const TimeNs now = clock_();
  line_->release_due(now);
  line_->pass(batch, flow, now);
  publish();
  return batch.size();
}

std::size_t FaultLink::send_damaged(wire::TxBatch& batch, Qpn flow, Damage damage) noexcept {
  return inner_->send_damaged(batch, flow, damage);
}

std::size_t FaultLink::receive(RxSink& sink, std::size_t budget) noexcept {
  if (const TimeNs due = next_due_.read(); due != kNever) {
    const TimeNs now = clock_();
    if (due <= now) {
      const Guard guard(lock_);
      line_->release_due(now);
      publish();
    }
  }
  return inner_->receive(sink, budget);
}

TimeNs FaultLink::next_timeout() const noexcept {
  return std::min(next_due_.read(), inner_->next_timeout());
}

}  // namespace verbena::link
