// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/link/fault_link.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "held_packets.hpp"

namespace verbena::link {
namespace {

// How long until a packet that the inner link did not take is offered again.
constexpr TimeNs kFullRetryNs = 100'000;

}  // namespace

// All that the lock guards. Packets that may go at once gather in a burst, which leaves as one
// batch; the others wait in a heap.
class FaultLink::Line {
 public:
  Line(Link& inner, std::uint64_t program, DropCounters& drops, SlowLines& lines)
      : inner_(inner),
        program_(program),
        drops_(drops),
        lines_(lines),
        room_(std::make_unique_for_overwrite<std::uint8_t[]>(kRoomBytes)),
        burst_({room_.get(), kRoomBytes}) {}

  void set_rules(std::span<const FaultRule> rules, TimeNs now) {
    rules_.clear();
    has_faults_ = false;
    for (const FaultRule& rule : rules) {
      rules_[rule.flow.value()] = rule;
      has_faults_ = has_faults_ || !rule.settings.is_none();
      if (rule.counters != nullptr && rule.starts_counting) rule.counters->reset();
    }
    change_lines(now);
  }
  void set_script(std::vector<fault::ActiveRule> script, TimeNs now) {
    for (fault::ActiveRule& rule : script) {
      const auto is_it = [&](const fault::ActiveRule& old) { return old.id == rule.id; };
      const auto known = std::ranges::find_if(script_, is_it);
      if (known != script_.end()) rule.since = known->since;
      if (rule.counters != nullptr && rule.starts_counting) rule.counters->reset();
    }
    script_ = std::move(script);
    change_lines(now);
  }
  bool has_faults() const { return has_faults_ || !script_.empty(); }
  bool holds_any() const { return !held_.empty(); }
  TimeNs next_due() const { return held_.empty() ? kNever : held_.front().due; }
  TimeNs carried(Qpn flow) const {
    const auto state = flows_.find(flow.value());
    return state == flows_.end() ? 0 : state->second.carried;
  }

  // Judges every packet. On return, all that are neither lost nor held back have gone to the inner
  // link.
  void pass(const TxBatch& batch, Qpn flow, TimeNs now) {
    const FaultRule* const rule = rule_of(flow);
    for (const TxBatch::Packet& p : batch.packets()) {
      const Passing packet{batch.bytes_of(p), batch.destination(p), flow, std::nullopt, p};
      if (rule == nullptr && script_.empty()) {
        emit(packet, now);
      } else {
        meet(packet, rule, batch, now);
      }
    }
    flush(now);
  }

  void release_due(TimeNs now) {
    emit_due(now);
    flush(now);
  }

 private:
  static constexpr std::size_t kRoomBytes =
      TxBatch::kMaxPackets * (wire::kMaxPacket + wire::kIcrcSize);

  // Returns null if no fault strikes this flow.
  const FaultRule* rule_of(Qpn flow) const {
    auto found = rules_.find(flow.value());
    if (found == rules_.end()) found = rules_.find(0);
    if (found == rules_.end() || found->second.settings.is_none()) return nullptr;
    return &found->second;
  }

  static void count(const FaultRule& rule, FaultCounter what) {
    if (rule.counters != nullptr) rule.counters->count(what);
  }

  // Counts a packet as lost. `rule` is null if a script took the packet, or if no rule strikes its
  // flow.
  void lose(const FaultRule* rule, fault::Direction direction) {
    drops_.count(DropReason::kInjected);
    if (rule == nullptr) return;
    count(*rule, FaultCounter::kLost);
    if (direction == fault::Direction::kRequest) count(*rule, FaultCounter::kLostRequests);
  }

  FlowState& state_of(Qpn flow, const wire::Origin& origin) {
    FlowState& state =
        flows_.try_emplace(flow.value(), FlowState{fault::Flow(program_)}).first->second;
    if (state.created != origin.created || state.lives != origin.lives) {
      state.script.begin_anew();
      state.created = origin.created;
      state.lives = origin.lives;
    }
    return state;
  }

  fault::Verdict ask_script(FlowState& state, const fault::PacketName& name, const Passing& packet,
                            std::uint32_t mtu, TimeNs now) {
    if (script_.empty()) return {};
    fault::Described described = fault::describe(name, packet.bytes, mtu);
    described.continues = packet.before.continues_read;
    described.place = state.created;
    described.qp = packet.flow;
    described.now = now;
    return state.script.judge(script_, described);
  }

  void meet(const Passing& packet, const FaultRule* rule, const TxBatch& batch, TimeNs now) {
    using fault::Direction;
    if (rule != nullptr) count(*rule, FaultCounter::kPackets);
    // A merged packet was made before there were faults, which are for ordinary packets. It is
    // lost, and its sender repeats it as ordinary packets.
    if (packet.before.psns != 0) return lose(rule, Direction::kRequest);
    try {
      FlowState& state = state_of(packet.flow, batch.origin());
      const fault::PacketName name = state.flow.name(batch.origin(), packet.bytes);
      const auto note_unsent = [&](Link::Unsent why) {
        inner_.note_unsent(batch, packet.before, packet.flow, why);
      };
      if (is_held(name)) return note_unsent(Link::Unsent::kWithheld);
      const fault::Verdict verdict = ask_script(state, name, packet, batch.origin().mtu, now);
      const fault::Fate fate =
          rule != nullptr ? state.flow.judge(rule->settings, name) : fault::Fate{};
      const bool is_refused = is_refused_by_line(packet, rule, verdict);
      if (fate.is_lost || verdict.is_lost || is_refused) {
        lose(fate.is_lost || is_refused ? rule : nullptr, name.direction);
        return note_unsent(Link::Unsent::kLost);
      }
      if (!carry(packet, rule, state, verdict, fate, name, now)) {
        lose(rule, name.direction);
        note_unsent(Link::Unsent::kLost);
      }
    } catch (const std::bad_alloc&) {
      lose(rule, Direction::kRequest);
    }
  }

  // A packet that finds no room in front of a line takes no time of the line.
  bool is_refused_by_line(const Passing& packet, const FaultRule* rule,
                          const fault::Verdict& verdict) const {
    const bool has_line =
        !verdict.lines.empty() || (rule != nullptr && rule->settings.bytes_per_second != 0);
    return has_line && !has_room_for(packet.bytes.size());
  }
  bool has_room_for(std::size_t bytes) const { return held_bytes_ + bytes <= kHeldBytesMax; }

  // A packet that a rule holds back does not arrive sooner because its sender repeats it.
  bool is_held(const fault::PacketName& name) const {
    return !script_.empty() && held_names_.contains(hash_of(name));
  }

  // Passes on a packet that is not lost: now or later, once or twice. Returns false if there is no
  // room to hold it back.
  bool carry(Passing packet, const FaultRule* rule, FlowState& state, const fault::Verdict& verdict,
             const fault::Fate& fate, const fault::PacketName& name, TimeNs now) {
    alter(packet, verdict);
    packet.is_ruled = verdict.is_taken;
    if (fate.damaged_bit) packet.damage = Damage{*fate.damaged_bit};
    TimeNs due = std::max({now + verdict.delay_ns, verdict.hold_until, state.not_before});
    if (rule != nullptr) {
      due += fate.delay_ns + (fate.is_reordered ? rule->settings.reorder_ns : 0);
    }
    Wait wait{.behind = verdict.behind,
              .line = wait_for_lines(state, rule, verdict, packet.bytes.size(), now)};
    if (wait.line.carried != 0) due += wait.line.carried - now;
    if (verdict.keeps_order) state.not_before = due;
    if (verdict.behind != 0) {
      wait.earliest = due;
      due = std::max(due, now + kOvertakenMost);
    }
    if (due != now && !has_room_for(packet.bytes.size())) return false;
    if (rule != nullptr) count_what_is_done(*rule, fate);
    const bool is_held = verdict.delay_ns != 0 || verdict.hold_until > now || verdict.behind != 0 ||
                         !verdict.lines.empty();
    if (is_held) wait.name = hash_of(name);
    for (int copy = 0; copy < (fate.is_doubled || verdict.is_doubled ? 2 : 1); ++copy) {
      wait.is_copy = copy != 0;
      if (due == now) {
        emit(packet, now);
      } else if (hold(packet, due, wait)) {
        state.waiting += verdict.behind != 0;
      }
    }
    if (due == now && state.waiting != 0) {
      note_overtaking(packet.flow, state, sequence_, now);
      emit_due(now);
    }
    return true;
  }

  // Makes the rules' changes in a copy, which stays valid until the next packet.
  void alter(Passing& packet, const fault::Verdict& verdict) {
    if (verdict.breaks_icrc) {
      packet.damage = Damage{static_cast<std::uint32_t>(packet.bytes.size() * 8)};
    }
    if (verdict.changes.empty() && verdict.mark == 0) return;
    altered_.assign(packet.bytes.begin(), packet.bytes.end());
    for (const fault::Field field : verdict.changes) fault::change(field, altered_);
    wire::Bth::mark(altered_.data(), verdict.mark);
    packet.bytes = altered_;
  }

  // Counts that a packet has gone, at `when`, which came after those with lower sequence numbers.
  // What waited only for this one is next.
  void note_overtaking(Qpn flow, FlowState& state, std::uint64_t sequence, TimeNs when) {
    for (Held& held : held_) {
      if (!(held.flow == flow) || held.wait.behind == 0 || held.sequence > sequence) continue;
      if (--held.wait.behind != 0) continue;
      held.due = std::max(when, held.wait.earliest);
      --state.waiting;
    }
    std::make_heap(held_.begin(), held_.end());
  }

  void emit_due(TimeNs now) {
    while (!held_.empty() && held_.front().due <= now) {
      std::pop_heap(held_.begin(), held_.end());
      const Held packet = std::move(held_.back());
      held_.pop_back();
      held_bytes_ -= packet.bytes.size();
      if (packet.wait.name != 0) held_names_.erase(held_names_.find(packet.wait.name));
      if (packet.wait.for_room) --full_.at(packet.flow.value()).waiting;
      emit(packet.passing(), now, packet.wait.for_room);
      const auto state = flows_.find(packet.flow.value());
      if (state == flows_.end() || state->second.waiting == 0) continue;
      if (packet.wait.behind != 0) {
        --state->second.waiting;
      } else if (packet.wait.earliest == 0 && !packet.wait.for_room && !packet.wait.is_copy) {
        note_overtaking(packet.flow, state->second, packet.sequence, packet.due);
      }
    }
  }

  static void count_what_is_done(const FaultRule& rule, const fault::Fate& fate) {
    if (fate.damaged_bit) count(rule, FaultCounter::kCorrupted);
    if (fate.is_doubled) count(rule, FaultCounter::kDuplicated);
    if (fate.is_reordered) count(rule, FaultCounter::kReordered);
    if (fate.delay_ns > 0) count(rule, FaultCounter::kDelayed);
    if (rule.settings.bytes_per_second > 0) count(rule, FaultCounter::kRateLimited);
  }

  // Returns how long until the line of --rate has carried a packet and those before it.
  TimeNs wait_for_rate(FlowState& state, const FaultRule& rule, std::size_t bytes, TimeNs now) {
    const std::uint64_t rate = rule.settings.bytes_per_second;
    const std::size_t sealed = bytes + wire::kIcrcSize;
    if (!rule.has_own_line) return lines_.wait_for_all(sealed, rate, now);
    return state.line.wait_for(sealed, rate, now);
  }

  // Lets a packet wait for all lines that it crosses. It passes no other one of its flow there.
  LineWait wait_for_lines(FlowState& state, const FaultRule* rule, const fault::Verdict& verdict,
                          std::size_t bytes, TimeNs now) {
    LineWait wait;
    TimeNs carried = now;
    if (rule != nullptr && rule->settings.bytes_per_second != 0) {
      carried += wait_for_rate(state, *rule, bytes, now);
      wait.bytes_per_second = rule->settings.bytes_per_second;
      wait.is_own = rule->has_own_line;
    }
    for (const fault::Line& line : verdict.lines) {
      carried +=
          lines_.wait_for_rule(line.rule, bytes + wire::kIcrcSize, line.bytes_per_second, now);
      wait.rule = line.rule;
    }
    if (wait.rule != 0 || wait.bytes_per_second != 0) {
      state.carried = wait.carried = std::max(carried, state.carried);
    }
    return wait;
  }

  bool is_in_force(const LineWait& line, const FaultRule* rule) const {
    if (line.rule != 0) {
      return std::ranges::any_of(script_, [&](const auto& r) { return r.id == line.rule; });
    }
    const std::uint64_t rate = rule != nullptr ? rule->settings.bytes_per_second : 0;
    return line.bytes_per_second == rate && (rate == 0 || line.is_own == rule->has_own_line);
  }

  // Gives new times to the packets that wait for a line which has another speed now, or is gone.
  // Thus they keep their order, and later ones do not wait for the old speed.
  void change_lines(TimeNs now) {
    std::vector<Held*> waiting;
    for (Held& held : held_) {
      if (held.wait.line.carried > now && held.wait.behind == 0) waiting.push_back(&held);
    }
    std::ranges::sort(waiting, {}, &Held::sequence);
    for (auto& [flow, state] : flows_) state.carried = 0;
    for (Held* const held : waiting) {
      FlowState& state =
          flows_.try_emplace(held->flow.value(), FlowState{fault::Flow(program_)}).first->second;
      const FaultRule* const rule = rule_of(held->flow);
      LineWait& line = held->wait.line;
      if (!is_in_force(line, rule)) {
        const TimeNs after_the_line = held->due - line.carried;
        line =
            line.rule == 0 ? wait_for_lines(state, rule, {}, held->bytes.size(), now) : LineWait{};
        held->due = std::max(line.carried, now) + after_the_line;
      }
      state.carried = std::max(state.carried, line.carried);
    }
    std::make_heap(held_.begin(), held_.end());
    if (!has_faults()) flows_.clear();
  }

  // Returns false if there is no room for the packet.
  bool hold(const Passing& p, TimeNs due, const Wait& wait) {
    if (!has_room_for(p.bytes.size())) return false;
    held_.push_back({due,
                     sequence_++,
                     p.flow,
                     p.destination,
                     p.damage,
                     p.before,
                     {p.bytes.begin(), p.bytes.end()},
                     p.is_ruled,
                     wait});
    std::push_heap(held_.begin(), held_.end());
    held_bytes_ += p.bytes.size();
    if (wait.name != 0) held_names_.insert(wait.name);
    return true;
  }

  // Lets a packet of a full flow wait, behind those that wait already. One that has waited is the
  // next of its flow. Returns false if the packet may go.
  bool wait_for_room(const Passing& packet, bool has_waited, TimeNs now) {
    const auto full = full_.find(packet.flow.value());
    if (full == full_.end()) return false;
    const FullFlow& flow = full->second;
    if (flow.until > now || (flow.waiting != 0 && !has_waited)) {
      offer_again(packet, flow.until);
      return true;
    }
    if (flow.waiting == 0) full_.erase(full);
    return false;
  }

  // Adds a packet to the burst, which keeps to one flow.
  void emit(const Passing& p, TimeNs now, bool has_waited = false) {
    if (!burst_.empty() && (p.damage || p.is_ruled || !(burst_flow_ == p.flow))) flush(now);
    if (wait_for_room(p, has_waited, now)) return;
    std::uint8_t* room = burst_.begin(p.bytes.size());
    if (room == nullptr) {
      flush(now);
      if (wait_for_room(p, true, now)) return;
      room = burst_.begin(p.bytes.size());
    }
    if (room == nullptr) return drops_.count(DropReason::kInjected);
    std::memcpy(room, p.bytes.data(), p.bytes.size());
    burst_.commit(p.bytes.size(), p.destination);
    burst_.make_as(p.before);
    burst_flow_ = p.flow;
    if (p.damage) {
      inner_.send_damaged(burst_, p.flow, *p.damage);
      burst_.clear();
    } else if (p.is_ruled) {
      if (inner_.send_ruled(burst_, p.flow) == 0) offer_again(p, now + kFullRetryNs);
      burst_.clear();
    }
  }

  void flush(TimeNs now) {
    if (burst_.empty()) return;
    const std::size_t taken = inner_.send(burst_, burst_flow_);
    for (const TxBatch::Packet& p : burst_.packets().subspan(taken)) {
      offer_again({burst_.bytes_of(p), burst_.destination(p), burst_flow_, std::nullopt, p},
                  now + kFullRetryNs);
    }
    burst_.clear();
  }

  void offer_again(const Passing& packet, TimeNs due) {
    try {
      FullFlow& flow = full_[packet.flow.value()];
      flow.until = due;
      if (hold(packet, due, {.for_room = true})) {
        ++flow.waiting;
        return;
      }
    } catch (const std::bad_alloc&) {
    }
    drops_.count(DropReason::kInjected);
  }

  Link& inner_;
  std::uint64_t program_;
  DropCounters& drops_;
  SlowLines& lines_;
  bool has_faults_ = false;
  std::unordered_map<std::uint32_t, FaultRule> rules_;  // by flow; 0: the general rule
  std::vector<fault::ActiveRule> script_;
  std::unordered_map<std::uint32_t, FlowState> flows_;
  std::unordered_map<std::uint32_t, FullFlow> full_;
  std::vector<std::uint8_t> altered_;
  std::vector<Held> held_;
  std::unordered_multiset<std::uint64_t> held_names_;  // one entry for each copy
  std::size_t held_bytes_ = 0;
  std::uint64_t sequence_ = 0;
  std::unique_ptr<std::uint8_t[]> room_;  // large, and untouched until there is a fault
  TxBatch burst_;
  Qpn burst_flow_;
};

FaultLink::FaultLink(std::unique_ptr<Link> inner, std::uint64_t program, DropCounters& drops,
                     Clock clock, std::shared_ptr<SlowLines> lines)
    : inner_(std::move(inner)),
      clock_(clock),
      lines_(std::move(lines)),
      line_(std::make_unique<Line>(*inner_, program, drops, *lines_)) {}

FaultLink::~FaultLink() = default;

// Inactive also means that nothing is held back: a queue pair's packets then go straight to the
// inner link, and no other thread can still be sending one of them from here.
void FaultLink::publish() {
  next_due_.publish(line_->next_due());
  active_.publish(line_->has_faults() || line_->holds_any());
}

void FaultLink::set_rules(std::span<const FaultRule> rules) {
  const Guard guard(lock_);
  line_->set_rules(rules, clock_());
  publish();
}

void FaultLink::set_script(std::vector<fault::ActiveRule> script) {
  const Guard guard(lock_);
  line_->set_script(std::move(script), clock_());
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

TimeNs FaultLink::wait_of_line(Qpn flow, TimeNs now) noexcept {
  if (!active_.read()) return 0;
  const Guard guard(lock_);
  return std::max(line_->carried(flow), now) - now;
}

std::size_t FaultLink::receive(RxSink& sink, std::size_t budget) noexcept {
  release_due();
  return inner_->receive(sink, budget);
}

void FaultLink::release_due() noexcept {
  if (next_due() == kNever) return;
  const TimeNs now = clock_();
  if (next_due() > now) return;
  const Guard guard(lock_);
  line_->release_due(now);
  publish();
}

}  // namespace verbena::link
