// SPDX-License-Identifier: BSD-2-Clause
#include "status_writers.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "verbena/control/status_messages.hpp"

namespace verbena::daemon {

using control::StatusPart;

void StatusTextWriter::send(StatusPart part, std::string text) { send_({part, std::move(text)}); }

// As many lines in one message as fit.
template <typename Objects>
void StatusTextWriter::send_lines(StatusPart part, const Objects& objects) {
  std::string lines;
  for (const auto& object : objects) {
    std::string line = json_of(object);
    if (lines.size() + line.size() > control::StatusText::kTextMost && !lines.empty()) {
      send(part, std::exchange(lines, {}));
    }
    if (!lines.empty()) lines += '\n';
    lines += line;
  }
  if (!lines.empty()) send(part, std::move(lines));
}

void StatusTextWriter::begin() {
  send(StatusPart::kEmulator, json_of(emulator_));
  std::vector<RuleStatus> rules;
  for (const fabric::RuleTable::Entry& entry : fabric_.rules().all()) {
    rules.push_back({entry.spec, entry.rule.needs_seed(), fabric_.totals_of(entry)});
  }
  send_lines(StatusPart::kRules, rules);
}

bool StatusTextWriter::cm_ids() {
  const std::vector<CmIdOfProcess> next = cm_ids_(last_cm_id_);
  if (next.empty()) return false;
  send_lines(StatusPart::kCmIds, next);
  last_cm_id_ = next.back().id.number;
  return true;
}

void StatusTextWriter::device(const fabric::Port& port) {
  fabric::Port* const shown = resets_ ? fabric_.find(port.info().name) : nullptr;
  send(StatusPart::kDevice,
       json_of(port.info(), shown != nullptr ? shown->take_totals() : port.totals()));
  std::vector<FaultStatus> faults;
  for (const fabric::FaultTable::Fault& fault : port.faults().all()) {
    faults.push_back({port.faults().in_force(fault), fault.ended, port.totals_of(fault)});
  }
  send_lines(StatusPart::kFaults, faults);
}

bool StatusTextWriter::context(const ContextStatus& context) {
  send(StatusPart::kContext, json_of(context));
  return true;
}

bool StatusTextWriter::objects(std::span<const control::QpStatus> qps) {
  send_lines(StatusPart::kQps, qps);
  return true;
}

bool StatusTextWriter::objects(std::span<const control::CqStatus> cqs) {
  send_lines(StatusPart::kCqs, cqs);
  return true;
}

bool StatusTextWriter::objects(std::span<const control::SrqStatus> srqs) {
  send_lines(StatusPart::kSrqs, srqs);
  return true;
}

void StatusTextWriter::context_end(bool is_complete) {
  send(StatusPart::kContextEnd, json_of_context_end(is_complete));
}

void StatusTextWriter::end() { send(StatusPart::kEnd, ""); }

void ResourcesWriter::device(const fabric::Port& port) {
  resources_.device = port.info().name;
  told_ = 0;
}

bool ResourcesWriter::context(const ContextStatus& context) {
  resources_.pid = context.pid;
  resources_.comm = context.comm;
  resources_.counts = context.first.counts;
  resources_.qps.clear();
  return context.responds && told_ < control::Resources::kQpsMost;
}

bool ResourcesWriter::objects(std::span<const control::QpStatus> qps) {
  const std::size_t count = std::min(qps.size(), control::Resources::kQpsMost - told_);
  told_ += count;
  resources_.qps.assign(qps.begin(), qps.begin() + static_cast<std::ptrdiff_t>(count));
  send_({false, {resources_}});
  // Counted once.
  resources_.counts = control::ResourceCounts{.contexts = 0};
  return told_ < control::Resources::kQpsMost;
}

void ResourcesWriter::context_end(bool) {
  if (resources_.counts == control::ResourceCounts{.contexts = 0}) return;
  resources_.qps.clear();
  send_({false, {resources_}});
}

void ResourcesWriter::end() { send_({}); }

}  // namespace verbena::daemon
