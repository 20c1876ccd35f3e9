// SPDX-License-Identifier: BSD-2-Clause
#include "departures.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <sstream>

namespace verbena::cli {
namespace {

using nlohmann::json;

std::string text_in(const json& object, const char* member) {
  const auto found = object.find(member);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string how_died(const json& event) {
  const std::string signal = text_in(event, "signal");
  return signal.empty() ? "died" : "died by " + signal;
}

std::string how_closed(const json& event) {
  const std::string by = text_in(event, "by");
  if (by == "exit") return "exited";
  if (by == "execve") return "became another program (execve)";
  if (by == "close") return "closed the descriptors of its device";
  return "closed its device";
}

// Returns a time such as "2026-01-31T12:00:00.123456Z" in seconds since 1970, or NaN.
double seconds_of(const std::string& time) {
  std::tm parts{};
  double seconds = 0;
  const int read = std::sscanf(time.c_str(), "%d-%d-%dT%d:%d:%lfZ", &parts.tm_year, &parts.tm_mon,
                               &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &seconds);
  if (read != 6) return std::nan("");
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  return static_cast<double>(::timegm(&parts)) + seconds;
}

std::string ago_text(const std::string& time, double now) {
  const double passed = now - seconds_of(time);
  if (!(passed >= 0)) return "";  // the time is not known
  if (passed < 1) return " less than 1 s ago";
  return " " + std::to_string(static_cast<long long>(passed)) + " s ago";
}

}  // namespace

void Departures::take(const std::string& lines) {
  std::istringstream all(lines);
  for (std::string line; std::getline(all, line);) take_event(line);
}

void Departures::take_event(const std::string& line) {
  const json event = json::parse(line, nullptr, false);
  if (!event.is_object() || !event.contains("pid") || !event["pid"].is_number_unsigned()) return;
  const std::uint32_t pid = event["pid"];
  const std::string device = text_in(event, "device");
  const std::string kind = text_in(event, "kind");
  if (kind == "connected") {
    connected_.push_back({device, text_in(event, "program"), pid, text_in(event, "qpn")});
  } else if (kind == "opened") {
    ++processes_[{pid, device}].contexts;
  } else if (kind == "died" || kind == "closed") {
    Process& process = processes_[{pid, device}];
    // The first contexts may have been opened before the oldest event that is kept.
    process.contexts = std::max(process.contexts - 1, 0);
    process.end = kind == "died" ? how_died(event) : how_closed(event);
    process.time = text_in(event, "time");
  }
}

Departures::Owner Departures::owner_of(const Missing& missing,
                                       const std::map<std::string, std::string>& address_of,
                                       double now) const {
  const auto is_it = [&](const Connected& one) {
    if (one.qpn != missing.qpn) return false;
    const auto device = address_of.find(one.device);
    return device != address_of.end() && device->second == missing.address;
  };
  const auto found = std::find_if(connected_.rbegin(), connected_.rend(), is_it);  // the newest
  if (found == connected_.rend()) return {};
  Owner owner{found->pid, found->program, ""};
  const auto process = processes_.find({found->pid, found->device});
  if (process != processes_.end() && process->second.contexts == 0) {
    owner.end = process->second.end + ago_text(process->second.time, now);
  }
  return owner;
}

}  // namespace verbena::cli
