// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/link_orders.hpp"

#include <algorithm>
#include <utility>

#include "verbena/context/program_name.hpp"
#include "verbena/control/fault_settings.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {

// Faults apply to ordinary packets, and captures show ordinary packets.
void LinkOrders::choose_packs(bool must_be_ordinary) {
  links_->peers().set_packs(must_be_ordinary ? link::Packs::kNothing : link::Packs::kMerged);
}

void LinkOrders::on_capture(control::CaptureOrder&& order, const control::UniqueFd& ring) {
  if (!order.is_on) {
    links_->capture().stop();
    return choose_packs(has_faults_);
  }
  // Without a ring, the senders that record for themselves have changed, or there was no descriptor
  // left.
  if (!ring) return links_->capture().leave_out(std::move(order.recorded_by_sender));
  auto mapped = link::CaptureRing::map(ring.get());
  if (!mapped) return explain("%s: not captured", mapped.error().text.c_str());
  choose_packs(true);
  links_->capture().start(std::move(*mapped), std::move(order.recorded_by_sender));
}

LinkOrders::Scripts LinkOrders::scripts_of(const std::vector<control::RuleSpec>& specs) {
  bool has_marks = false;
  Scripts scripts;
  for (const control::RuleSpec& spec : specs) {
    auto rule = fault::parse_rule(spec.text);
    if (!rule || spec.place >= control::kRulesMost) continue;
    has_marks = has_marks || rule->action == fault::Action::kNak ||
                rule->action == fault::Action::kComplete;
    if (rule->is_management() || rule->is_event() ||
        (!rule->device.empty() && rule->device != device_) ||
        (!rule->program.empty() && !is_this_program(rule->program))) {
      continue;
    }
    if (rule->is_of_call() && calls_ == nullptr) continue;
    auto& script = rule->is_of_call() ? scripts.calls : scripts.packets;
    script.push_back(control::activate(spec, std::move(*rule), link::monotonic_now_ns(), stats_));
  }
  // The engine obeys the marks of any sender, also when the rule is not about this program.
  engine_->device().obey_marks(has_marks);
  return scripts;
}

void LinkOrders::on_faults(const std::vector<control::FaultSpec>& faults,
                           const std::vector<control::RuleSpec>& specs) {
  Scripts scripts = scripts_of(specs);
  has_faults_ =
      !scripts.packets.empty() || std::ranges::any_of(faults, [](const control::FaultSpec& spec) {
        return spec.qpn != control::FaultSpec::kCm;
      });
  names_queue_pairs_.publish(
      std::ranges::any_of(faults, [](const auto& spec) { return spec.is_of_one_queue_pair(); }));
  choose_packs(has_faults_ || links_->capture().is_running());
  std::vector<link::FaultRule> rules;
  for (const control::FaultSpec& spec : faults) {
    if (spec.qpn == control::FaultSpec::kCm || spec.place >= control::kFaultsMost) continue;
    link::FaultRule& rule = rules.emplace_back();
    rule.flow = Qpn(spec.qpn);
    rule.settings = control::settings_of(spec);
    rule.has_own_line = spec.has_own_line;
    if (stats_ == nullptr) continue;
    control::FaultPart& part = stats_->faults[spec.place];
    rule.counters = &part.counters;
    rule.starts_counting = part.id.read() != spec.id;
    part.id.set(spec.id);
  }
  links_->faults().set_rules(rules);
  links_->faults().set_script(std::move(scripts.packets));
  if (calls_ != nullptr) calls_->set_rules(std::move(scripts.calls));
}

}  // namespace verbena::provider
