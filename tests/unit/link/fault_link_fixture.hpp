// SPDX-License-Identifier: BSD-2-Clause
// A FaultLink on virtual time, before a link that remembers what was sent.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "link_fixture.hpp"
#include "verbena/fault/flow.hpp"
#include "verbena/link/fault_link.hpp"

namespace verbena::link::test::faults {

inline constexpr std::uint64_t kSeed = 20'251'120;
inline constexpr std::uint64_t kProgram = 4711;
inline const Qpn kFlow = Qpn::from(1, 7);
inline const Qpn kOtherFlow = Qpn::from(1, 8);

inline std::atomic<TimeNs> g_now{1'000'000'000};
inline TimeNs virtual_now() noexcept { return g_now.load(); }

// Remembers what was sent, and when.
class Recorder final : public Link {
 public:
  struct Sent {
    std::uint32_t psn;
    std::size_t length;
    Qpn flow;
    TimeNs when;
    bool damaged;
    std::uint8_t mark;
  };

  std::size_t send(wire::TxBatch& batch, Qpn flow) noexcept override {
    return record(batch, flow, false, std::min(room, batch.size()));
  }
  std::size_t send_damaged(wire::TxBatch& batch, Qpn flow, Damage) noexcept override {
    return record(batch, flow, true, batch.size());
  }
  std::size_t receive(RxSink&, std::size_t) noexcept override { return 0; }
  void note_unsent(const wire::TxBatch&, const wire::TxBatch::Packet&, Qpn,
                   Unsent why) noexcept override {
    lost += why == Unsent::kLost;
  }

  std::vector<Sent> sent;
  std::size_t lost = 0;  // packets of which it was told
  std::size_t room = ~std::size_t{0};
  std::size_t calls = 0;

 private:
  std::size_t record(wire::TxBatch& batch, Qpn flow, bool damaged, std::size_t count) {
    ++calls;
    for (const auto& p : batch.packets().first(count)) {
      const auto bytes = batch.bytes_of(p);
      const wire::BthView bth(bytes.data());
      sent.push_back({bth.psn().value(), p.length, flow, g_now, damaged, bth.mark()});
    }
    return count;
  }
};

class FaultLinkTest : public ::testing::Test {
 protected:
  FaultLinkTest() {
    auto inner = std::make_unique<Recorder>();
    recorder_ = inner.get();
    link_ = std::make_unique<FaultLink>(std::move(inner), kProgram, drops_, &virtual_now);
  }

  void set_for_all(const fault::Settings& settings) { set_for(Qpn(0), settings); }
  void set_for(Qpn flow, fault::Settings settings, bool has_own_line = false) {
    settings.seed = kSeed;
    std::erase_if(rules_, [flow](const FaultRule& rule) { return rule.flow == flow; });
    rules_.push_back({flow, settings, &counters_, false, has_own_line});
    link_->set_rules(rules_);
  }
  void set_script(std::initializer_list<std::string_view> lines) {
    script_.clear();
    for (const std::string_view line : lines) {
      auto rule = fault::parse_rule(line);
      ASSERT_TRUE(rule.ok()) << rule.error();
      const std::uint64_t id = script_.size() + 1;
      script_.push_back(fault::activate(id, std::move(*rule), kSeed, g_now));
      script_.back().counters = &rule_counters_[id];
    }
    link_->set_script(script_);
  }
  void clear() {
    rules_.clear();
    link_->set_rules({});
  }
  std::uint64_t counted(FaultCounter c) const { return counters_.read(c); }

  void send(std::uint32_t first_psn, std::uint32_t count, Qpn flow = kFlow,
            std::size_t length = 100) {
    for (std::uint32_t done = 0; done < count;) {
      Batch batch(64 * 1024);
      const std::uint32_t n = std::min<std::uint32_t>(32, count - done);
      for (std::uint32_t i = 0; i < n; ++i) {
        batch.add(make_packet(Qpn(9), first_psn + done + i, length), to(own_address()));
      }
      ASSERT_EQ(link_->send(batch.get(), flow), n);
      done += n;
    }
  }
  // Lets time pass and does what a progress thread does.
  void pass_time(TimeNs ns) {
    g_now += ns;
    link_->receive(sink_, 64);
  }
  std::vector<std::uint32_t> psns_sent() const {
    std::vector<std::uint32_t> psns;
    for (const auto& s : recorder_->sent) psns.push_back(s.psn);
    return psns;
  }
  std::map<std::uint32_t, int> copies_by_psn() const {
    std::map<std::uint32_t, int> copies;
    for (const auto& s : recorder_->sent) ++copies[s.psn];
    return copies;
  }
  // Returns the fate of the flow's next packet with this seed.
  static fault::Fate fate_of(fault::Flow& flow, fault::Settings settings, std::uint32_t psn) {
    settings.seed = kSeed;
    return flow.judge(settings, {}, make_packet(Qpn(9), psn, 100)).fate;
  }

  DropCounters drops_;
  FaultCounters counters_;
  std::vector<FaultRule> rules_;
  std::vector<fault::ActiveRule> script_;
  std::map<std::uint64_t, RuleCounters> rule_counters_;
  Collector sink_;
  Recorder* recorder_;
  std::unique_ptr<FaultLink> link_;
};

}  // namespace verbena::link::test::faults
