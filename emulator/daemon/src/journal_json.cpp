// SPDX-License-Identifier: BSD-2-Clause
#include "journal_json.hpp"

#include <sys/types.h>
#include <time.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "names.hpp"
#include "verbena/control/signal_name.hpp"

namespace verbena::daemon {
namespace {

using control::JournalKind;
using control::JournalRecord;
using nlohmann::ordered_json;

ordered_json or_null(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

std::uint64_t now() {
  timespec t{};
  ::clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

// Returns "2026-01-31T12:00:00.123456Z".
std::string time_text(std::uint64_t ns) {
  const auto seconds = static_cast<std::time_t>(ns / 1'000'000'000);
  std::tm broken{};
  ::gmtime_r(&seconds, &broken);
  char text[64];
  const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &broken);
  std::snprintf(text + size, sizeof text - size, ".%06uZ",
                static_cast<unsigned>(ns % 1'000'000'000 / 1000));
  return text;
}

// Returns the members that every event has.
ordered_json begun(const char* kind, const JournalSource& source, std::uint64_t time = now()) {
  return {
      {"time", time_text(time)},
      {"kind", kind},
      {"device", or_null(source.device)},
      {"program", or_null(source.program)},
      {"pid", source.pid == 0 ? ordered_json(nullptr) : ordered_json(source.pid)},
  };
}

void add_queue_pair(ordered_json& event, const JournalRecord& record) {
  event["qpn"] = hex(record.qpn, 6);
  event["type"] = qp_type_name(record.qp_type);
  event["peer"] = nullptr;
  if (record.peer_address.is_unspecified()) return;
  event["peer"] = {{"address", record.peer_address.to_string()}, {"qpn", hex(record.peer_qpn, 6)}};
}

void add_work(ordered_json& event, const JournalRecord& record) {
  event["opcode"] = or_null(record.opcode.data());
  event["wr_id"] = record.has_wr_id != 0 ? ordered_json(record.wr_id) : ordered_json(nullptr);
  event["count"] = record.count;
}

const char* word_of(ContextEnd::How how) {
  switch (how) {
    case ContextEnd::How::kClosed:
      return "ibv_close_device";
    case ContextEnd::How::kExited:
      return "exit";
    case ContextEnd::How::kReplaced:
      return "execve";
    case ContextEnd::How::kLeft:
      return "close";
    case ContextEnd::How::kDied:
      break;
  }
  return "death";
}

ordered_json changes_of(std::uint32_t changes) {
  constexpr std::pair<std::uint32_t, const char*> kNames[] = {
      {control::kPortStateChanged, "state"}, {control::kLidChanged, "lid"},
      {control::kGidsChanged, "gids"},       {control::kPkeysChanged, "pkeys"},
      {control::kSmChanged, "sm"},
  };
  ordered_json names = ordered_json::array();
  for (const auto& [bit, name] : kNames) {
    if ((changes & bit) != 0) names.push_back(name);
  }
  return names;
}

// Returns the values that the change names.
ordered_json values_of(const control::ChangeFault& change) {
  const control::FaultValues& v = change.values;
  const std::pair<std::uint32_t, std::pair<const char*, std::uint64_t>> kValues[] = {
      {control::kFaultLoss, {"loss_ppm", v.loss_ppm}},
      {control::kFaultDuplicate, {"duplicate_ppm", v.duplicate_ppm}},
      {control::kFaultReorder, {"reorder_ppm", v.reorder_ppm}},
      {control::kFaultCorrupt, {"corrupt_ppm", v.corrupt_ppm}},
      {control::kFaultDelay, {"delay_ns", v.delay_ns}},
      {control::kFaultJitter, {"jitter_ns", v.jitter_ns}},
      {control::kFaultRate, {"rate_bytes_per_second", v.rate_bytes_per_second}},
  };
  ordered_json values = ordered_json::object();
  for (const auto& [bit, value] : kValues) {
    if ((change.named & bit) != 0) values[value.first] = value.second;
  }
  return values;
}

}  // namespace

std::string json_of_up(const std::string& version, std::uint32_t pid) {
  ordered_json event = begun("emulator_up", {"", "verbenad", pid});
  event["version"] = version;
  return text_of(event);
}

std::string json_of_down(const std::string& reason) {
  ordered_json event = begun("emulator_down", {});
  event["reason"] = reason;
  return text_of(event);
}

std::string json_of_opened(const JournalSource& source, std::uint32_t slot) {
  ordered_json event = begun("opened", source);
  event["slot"] = slot;
  return text_of(event);
}

std::string json_of_end(const JournalSource& source, std::uint32_t slot, const ContextEnd& end) {
  const bool has_died = end.how == ContextEnd::How::kDied;
  ordered_json event = begun(has_died ? "died" : "closed", source);
  event["slot"] = slot;
  if (has_died) {
    event["signal"] = or_null(std::string(control::signal_name(end.signal)));
  } else {
    event["by"] = word_of(end.how);
  }
  return text_of(event);
}

std::string json_of(const JournalSource& source, const JournalRecord& record,
                    const std::string& text) {
  const bool is_error = record.kind == JournalKind::kState && record.state > 4;
  const char* const kind = record.kind == JournalKind::kFailure   ? "completion_error"
                           : record.kind == JournalKind::kTimeout ? "timeout"
                           : is_error                             ? "qp_error"
                                                                  : "connected";
  ordered_json event = begun(kind, source, record.time);
  add_queue_pair(event, record);
  if (record.kind == JournalKind::kState) {
    event["state"] = qp_state_name(record.state);
    if (is_error) event["reason"] = or_null(text);
  } else {
    if (record.kind == JournalKind::kFailure) {
      event["status"] = completion_status_name(record.status);
      event["explanation"] = or_null(text);
    }
    add_work(event, record);
  }
  return text_of(event);
}

std::string json_of_lost(std::uint64_t count, const JournalSource* source) {
  ordered_json event = begun("lost", source == nullptr ? JournalSource{} : *source);
  event["count"] = count;
  return text_of(event);
}

std::string json_of_port(const control::PortEvent& port) {
  ordered_json event = begun("port", {port.device.name, "", 0});
  event["state"] = port.device.port_state == control::PortState::kActive ? "ACTIVE" : "DOWN";
  event["changes"] = changes_of(port.changes);
  return text_of(event);
}

std::string json_of_fault(const control::ChangeFault& change,
                          const control::FaultChanged& changed) {
  ordered_json event = begun(change.clear ? "fault_cleared" : "fault_set", {change.device, "", 0});
  event["qpn"] = change.qpn == 0 ? ordered_json(nullptr) : ordered_json(hex(change.qpn, 6));
  event["traffic"] = change.data && change.cm ? "all" : change.cm ? "cm" : "data";
  if (!change.clear) event["values"] = values_of(change);
  event["rules"] = change.rules;
  if (change.clear) return text_of(event);
  event["seed"] = changed.has_seed ? ordered_json(changed.seed) : ordered_json(nullptr);
  return text_of(event);
}

std::string json_of_rule(const std::string& rule, const std::string& device,
                         std::uint64_t matched) {
  ordered_json event = begun("rule", {device, "", 0});
  event["rule"] = rule;
  event["matched"] = matched;
  return text_of(event);
}

}  // namespace verbena::daemon
