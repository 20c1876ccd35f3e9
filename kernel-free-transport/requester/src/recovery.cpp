// Time and loss: when to go back, when to probe, when to give up, how much may be in flight.
#include <algorithm>

#include "verbena/requester/requester.hpp"

namespace verbena::requester {

using queue::Status;

namespace {

// UC and UD: 0.3 us a packet and 1.5 GB/s.
constexpr TimeNs kPacePerPacket = 300;
// How long a sender of UC waits before it looks again whether there is room.
constexpr TimeNs kRoomInterval = 50'000;
constexpr unsigned kProbeBackoffMax = 6;
constexpr std::uint8_t kWaryFor = 255;  // acknowledgements since the last loss

}  // namespace

TimeNs Requester::retry_interval() const {
  return std::max(TimeNs{4096} << reliability_.timeout, kRetryIntervalMin);
}

TimeNs Requester::probe_interval() const {
  const TimeNs interval =
      std::max(3 * smoothed_rtt_, wary_ != 0 ? kProbeIntervalWary : kProbeIntervalMin)
      << std::min<unsigned>(probes_, kProbeBackoffMax);
  // Some for each retry that is counted, or chance alone could use up the counter on a bad path.
  return reliability_.timeout == 0 ? interval : std::min(interval, retry_interval() / 4);
}

std::uint32_t Requester::capacity(const SendEntry& entry) const {
  return entry.length <= 1024 ? capacity_small_ : capacity_full_;
}

std::uint32_t Requester::window_for(const SendEntry& entry) const {
  return std::max(std::min(window_, share_->of(capacity(entry))), 1u);
}

void Requester::made_progress(std::uint32_t acknowledged, TimeNs now) {
  if (timing_ && timed_psn_.is_before(una_)) {
    // Another thread's time may be a little behind.
    const TimeNs sample = now > timed_at_ ? now - timed_at_ : 0;
    smoothed_rtt_ = smoothed_rtt_ == 0 ? sample : smoothed_rtt_ - smoothed_rtt_ / 8 + sample / 8;
    timing_ = false;
  }
  base_ = probe_base_ = now;
  probes_ = 0;
  if (wary_ != 0) --wary_;
  retries_left_ = reliability_.retry_count;
  went_back_ = false;
  // What a receiver can hold is known, so a loss is mostly chance: the way back up is quick.
  window_ = std::min(window_ + acknowledged / 2 + 1, capacity_small_);
}

// All from `una` on is to be sent again. Once per place: the same gap is reported by every packet
// behind it.
void Requester::go_back(TimeNs now) {
  if (una_ == sent_ || (went_back_ && went_back_to_ == una_)) return;
  went_back_ = true;
  went_back_to_ = una_;
  wary_ = kWaryFor;
  window_ = std::max(std::min(window_, in_flight()) / 2, 1u);
  timing_ = false;
  base_ = probe_base_ = now;
  lend_nothing_for_a_while();
  move_cursor_to(una_);
}

void Requester::move_cursor_to(Psn psn) {
  reads_in_flight_ = 0;
  // What failed here is found out again when its turn comes.
  poisoned_.reset();
  std::uint32_t position = queue_.head();
  for (; position != queue_.tail(); ++position) {
    const SendEntry& entry = queue_.at(position);
    if (entry.is_local()) {
      if (!entry.done) break;
      continue;
    }
    if (!entry.numbered || psn.is_at_or_before(entry.last())) break;
  }
  cursor_ = position;
  cursor_psn_ = psn;
}

// Nobody tells a sender of UC or UD that the receiver is full, and an adapter's wire would hold it
// to its speed: so many packets at once as a quarter of what a receiver holds, and then no more
// than one can empty.
bool Requester::within_pace(TimeNs now) {
  if (room_ == wire::Transmitter::Room::kNone) return false;
  const TimeNs burst = capacity_full_ / 4 * (kPacePerPacket + endpoint_.mtu * 2 / 3);
  pace_ = std::max(pace_, now);
  paced_until_ = pace_ - now > burst ? pace_ - burst : 0;
  return paced_until_ == 0;
}

// A way that tells how much it holds needs no guess.
void Requester::take_notice(wire::Transmitter::Room room, TimeNs now) {
  room_ = room;
  if (room == wire::Transmitter::Room::kSome) pace_ = 0;
  if (room == wire::Transmitter::Room::kNone) paced_until_ = now + kRoomInterval;
}

void Requester::paid(const SendEntry& entry) {
  pace_ += kPacePerPacket + std::min(entry.length, endpoint_.mtu) * 2 / 3;
}

TimeNs Requester::deadline() const {
  if (!sending_) return kNever;
  if (!is_reliable()) return paced_until_ != 0 && cursor_ != queue_.tail() ? paced_until_ : kNever;
  if (waiting_rnr_) return rnr_until_;
  if (una_ == sent_ || place_.waits()) return kNever;
  const TimeNs probe = probe_base_ + probe_interval();
  return reliability_.timeout == 0 ? probe : std::min(probe, base_ + retry_interval());
}

// Whether the peer has not taken yet what was given to the way when the last retry was counted.
bool Requester::is_kept_from_reading(TimeNs now, wire::Transmitter& way) {
  const auto reading = way.reading_at(endpoint_.destination, endpoint_.peer);
  if (reading && reading->taken < given_ && given_ <= reading->given) {
    return now < given_at_ + kReaderPatience;
  }
  given_ = reading ? reading->given : 0;
  given_at_ = now;
  return false;
}

void Requester::handle_timeout(TimeNs now, wire::Transmitter& way) {
  if (!sending_) return;
  if (waiting_rnr_) {
    if (now < rnr_until_) return;
    waiting_rnr_ = false;
    base_ = probe_base_ = now;
    return;
  }
  if (una_ == sent_ || place_.waits()) return;
  if (reliability_.timeout != 0 && now >= base_ + retry_interval()) {
    if (is_kept_from_reading(now, way)) {
      base_ = probe_base_ = now;
      return;
    }
    endpoint_.port->ack_timeouts.add();
    if (retries_left_ == 0 && endpoint_.alternate_armed) {
      endpoint_.migration_wanted = true;
      retries_left_ = reliability_.retry_count;
      went_back_ = false;
      go_back(now);
      return;
    }
    if (retries_left_ == 0) {
      explain_silence(now);
      fail_head(Status::kRetryExceeded);
      return;
    }
    --retries_left_;
    went_back_ = false;
    go_back(now);
    give_up_turn();
    window_ = 1;
    probe_unanswered_ = false;
    return;
  }
  if (now >= probe_base_ + probe_interval()) {
    probe_wanted_ = true;
    probe_base_ = now;
    if (probes_ < 255) ++probes_;
  }
}

}  // namespace verbena::requester
