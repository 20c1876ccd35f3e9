// SPDX-License-Identifier: BSD-2-Clause
#include "event_text.hpp"

#include <nlohmann/json.hpp>

#include "verbena/control/printable.hpp"

namespace verbena::cli {
namespace {

using nlohmann::json;

std::string string_in(const json& event, const char* name) {
  const auto found = event.find(name);
  return found != event.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string number_in(const json& event, const char* name) {
  const auto found = event.find(name);
  return found != event.end() && found->is_number() ? found->dump() : "";
}

// Returns "21:45:22.123456 server[4711] verbena0: ".
std::string beginning_of(const json& event) {
  const std::string time = string_in(event, "time");
  std::string text = time.size() > 26 ? time.substr(11, 15) : time;
  if (const std::string program = string_in(event, "program"); !program.empty()) {
    text += " " + program + "[" + number_in(event, "pid") + "]";
  }
  if (const std::string device = string_in(event, "device"); !device.empty()) text += " " + device;
  return text + ": ";
}

std::string behind_colon(const std::string& text) { return text.empty() ? text : ": " + text; }

std::string queue_pair_in(const json& event) {
  return string_in(event, "type") + " queue pair " + string_in(event, "qpn");
}

std::string peer_in(const json& event) {
  const auto peer = event.find("peer");
  if (peer == event.end() || !peer->is_object()) return "";
  return ", peer " + string_in(*peer, "address") + " " + string_in(*peer, "qpn");
}

// Joins the texts of a list, the first one behind `first`, each other one behind `before`.
std::string joined_in(const json& event, const char* name, const char* first, const char* before) {
  std::string text;
  const auto list = event.find(name);
  if (list == event.end()) return text;
  for (const json& item : *list) {
    if (item.is_string()) text += (text.empty() ? first : before) + item.get<std::string>();
  }
  return text;
}

std::string work_in(const json& event) {
  const std::string opcode = string_in(event, "opcode");
  const std::string count = number_in(event, "count");
  const std::string id = number_in(event, "wr_id");
  std::string text = opcode.empty() ? "work" : opcode;
  if (!id.empty()) text += " with wr_id " + id;
  if (count != "1") text += ", " + count + " of them";
  return text;
}

std::string fault_in(const json& event) {
  const std::string qpn = string_in(event, "qpn");
  std::string text =
      " for " + string_in(event, "traffic") + " traffic" + (qpn.empty() ? "" : " of " + qpn);
  if (const auto values = event.find("values"); values != event.end()) {
    for (const auto& [name, value] : values->items()) text += ", " + name + " " + value.dump();
  }
  text += joined_in(event, "rules", ", rule ", ", rule ");
  const std::string seed = number_in(event, "seed");
  return seed.empty() ? text : text + ", seed " + seed;
}

std::string words_of(const std::string& kind, const json& event) {
  const std::string signal = string_in(event, "signal");
  if (kind == "emulator_up") return "the emulator is up, version " + string_in(event, "version");
  if (kind == "emulator_down")
    return "the emulator goes down" + behind_colon(string_in(event, "reason"));
  if (kind == "opened") return "has opened the device, slot " + number_in(event, "slot");
  if (kind == "closed") return "has closed the device by " + string_in(event, "by");
  if (kind == "died") return "has died" + (signal.empty() ? "" : " of " + signal);
  if (kind == "connected") {
    return queue_pair_in(event) + " is in " + string_in(event, "state") + peer_in(event);
  }
  if (kind == "qp_error") {
    return queue_pair_in(event) + " is in " + string_in(event, "state") + peer_in(event) +
           behind_colon(string_in(event, "reason"));
  }
  if (kind == "completion_error") {
    return queue_pair_in(event) + ": " + string_in(event, "status") + " of " + work_in(event) +
           behind_colon(string_in(event, "explanation"));
  }
  if (kind == "timeout") {
    return queue_pair_in(event) + ": no answer in time to " + work_in(event) + peer_in(event);
  }
  if (kind == "fault_set") return "fault set" + fault_in(event);
  if (kind == "fault_cleared") {
    const std::string rules = joined_in(event, "rules", " ", ", ");
    return rules.empty() ? "faults cleared" + fault_in(event) : "rules cleared:" + rules;
  }
  if (kind == "rule")
    return "rule " + string_in(event, "rule") + ", for " + number_in(event, "matched");
  if (kind == "port")
    return "port " + string_in(event, "state") +
           ", changed: " + joined_in(event, "changes", "", ", ");
  if (kind == "lost") return number_in(event, "count") + " events are lost";
  return event.dump();
}

}  // namespace

std::string text_of_event(const std::string& line) {
  const json event = json::parse(line, nullptr, false);
  if (!event.is_object()) return control::printable(line);
  return control::printable(beginning_of(event) + words_of(string_in(event, "kind"), event));
}

bool is_end_of_emulator(const std::string& line) {
  const json event = json::parse(line, nullptr, false);
  return event.is_object() && string_in(event, "kind") == "emulator_down";
}

}  // namespace verbena::cli
