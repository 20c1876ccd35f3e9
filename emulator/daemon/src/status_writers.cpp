// SPDX-License-Identifier: BSD-2-Clause
#include "status_writers.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "verbena/control/status_messages.hpp"

namespace verbena::daemon {

using control::ResourcesOf;
using control::StatusPart;

std::vector<CmIdOfProcess> CmIdPages::next() {
  std::vector<CmIdOfProcess> page = behind_(last_);
  if (!page.empty()) last_ = page.back().id.number;
  return page;
}

void StatusTextWriter::send(StatusPart part, std::string text) { send_({part, std::move(text)}); }

// Puts as many lines into one message as fit.
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
  const std::vector<CmIdOfProcess> next = cm_ids_.next();
  send_lines(StatusPart::kCmIds, next);
  return !next.empty();
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

bool ResourcesWriter::is_asked_for(const fabric::CmIdStatus& id) const {
  if (id.device.empty()) return id.listens_everywhere;
  return query_.device.empty() || id.device == query_.device;
}

bool ResourcesWriter::cm_ids() {
  const bool tells = wants(ResourcesOf::kCmIds);
  if (!tells && !wants(ResourcesOf::kCounts)) return false;
  const std::vector<CmIdOfProcess> next = cm_ids_.next();
  control::Resources part;
  part.last = false;
  for (const CmIdOfProcess& of : next) {
    if (!is_asked_for(of.id)) continue;
    ++part.cm_id_count;
    if (!tells || told_cm_ids_ == control::Resources::kMost) continue;
    ++told_cm_ids_;
    control::CmIdResource& id = part.cm_ids.emplace_back(of.id.resource);
    id.device = of.id.device;
    id.pid = of.pid;
  }
  if (part.cm_id_count != 0) send_(part);
  return !next.empty();
}

void ResourcesWriter::device(const fabric::Port& port) {
  part_.device = port.info().name;
  told_ = {};
}

bool ResourcesWriter::context(const ContextStatus& context) {
  part_.slot = context.slot;
  part_.pid = context.pid;
  part_.comm = context.comm;
  part_.counts = context.first.counts;
  return context.responds && !wants(ResourcesOf::kCounts);
}

bool ResourcesWriter::objects(std::span<const control::QpStatus> qps) {
  const bool wanted = wants(ResourcesOf::kQueuePairs) || wants(ResourcesOf::kSharedReceives);
  return wanted && tell(qps, part_.qps, told_.qps);
}

bool ResourcesWriter::objects(std::span<const control::CqStatus> cqs) {
  return wants(ResourcesOf::kCompletionQueues) && tell(cqs, part_.cqs, told_.cqs);
}

bool ResourcesWriter::objects(std::span<const control::SrqStatus> srqs) {
  return wants(ResourcesOf::kSharedReceives) && tell(srqs, part_.srqs, told_.srqs);
}

template <typename Object>
bool ResourcesWriter::tell(std::span<const Object> objects, std::vector<Object>& list,
                           std::size_t& told) {
  const auto these = objects.first(std::min(objects.size(), control::Resources::kMost - told));
  told += these.size();
  list.assign(these.begin(), these.end());
  if (!these.empty()) send_part();
  list.clear();
  return told < control::Resources::kMost;
}

void ResourcesWriter::send_part() {
  control::Resources part;
  part.last = false;
  part.contexts.push_back(part_);
  send_(part);
  part_.counts = control::ResourceCounts{.contexts = 0};
}

void ResourcesWriter::context_end(bool) {
  if (part_.counts != control::ResourceCounts{.contexts = 0}) send_part();
}

void ResourcesWriter::end() { send_({}); }

}  // namespace verbena::daemon
