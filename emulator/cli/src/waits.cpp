// SPDX-License-Identifier: BSD-2-Clause
#include "waits.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "program_status.hpp"
#include "verbena/control/printable.hpp"
#include "wait_reasons.hpp"

namespace verbena::cli {
namespace {

using control::StatusPart;
using nlohmann::json;

// Returns true for packets that are dropped although nothing is wrong: they have come twice, or
// will come again.
bool is_normal(const std::string& reason) {
  return reason == "duplicate_request" || reason == "psn_out_of_sequence" ||
         reason == "response_to_nothing_outstanding" || reason == "own_multicast_blocked";
}

// Returns what there is to say about the device's port and its drop counters.
std::vector<Wait> waits_of_device(const json& device) {
  std::vector<Wait> waits;
  const std::string name = device["name"];
  const json& port = device["ports"][0];
  if (port["state"] != "ACTIVE") {
    waits.push_back({0, name, "its port is " + port["state"].get<std::string>()});
  }
  std::string drops;
  for (const auto& [reason, count] : port["drops"].items()) {
    if (is_normal(reason)) continue;
    drops += (drops.empty() ? "" : ", ") + count.dump() + " " + reason;
  }
  if (!drops.empty()) {
    waits.push_back({0, name, "it has dropped packets since its counters began: " + drops});
  }
  return waits;
}

}  // namespace

std::string text_of(const Wait& wait) {
  const std::string pid = wait.pid != 0 ? "[" + std::to_string(wait.pid) + "]" : "";
  return control::printable(wait.program + pid + ": " + wait.text);
}

Waits::Waits() = default;
Waits::~Waits() = default;

ProgramStatus& Waits::program_of(std::uint32_t pid, const std::string& name) {
  for (const auto& program : programs_) {
    if (program->pid == pid) return *program;
  }
  programs_.push_back(std::make_unique<ProgramStatus>());
  programs_.back()->pid = pid;
  programs_.back()->name = name;
  return *programs_.back();
}

void Waits::take(StatusPart part, const std::string& lines) {
  std::istringstream all(lines);
  for (std::string line; std::getline(all, line);) take_object(part, line);
}

void Waits::take_object(StatusPart part, const std::string& line) {
  const json object = json::parse(line, nullptr, false);
  if (object.is_discarded()) return;
  switch (part) {
    case StatusPart::kCmIds:
      program_of(object["pid"], object["program"]).ids.push_back(read_cm_id(object));
      return;
    case StatusPart::kDevice: {
      device_ = object["name"];
      device_address_ = object["address"];
      address_of_[device_] = device_address_;
      for (Wait& wait : waits_of_device(object)) of_devices_.push_back(std::move(wait));
      return;
    }
    case StatusPart::kContext: {
      pid_ = object["pid"];
      context_ = object["further_engine"].get<bool>() ? 0 : object["slot"].get<std::uint32_t>();
      ProgramStatus& program = program_of(pid_, object["program"]);
      take_destroys(program, object["waiting_destroys"]);
      program.has_context = true;
      program.responds = program.responds && object["responding"].get<bool>();
      return;
    }
    case StatusPart::kContextEnd:
      if (!object["complete"].get<bool>()) program_of(pid_, "").responds = false;
      return;
    case StatusPart::kQps: {
      QueuePairStatus qp = read_queue_pair(object);
      qp.device_address = device_address_;
      qp.context = context_;
      program_of(pid_, "").qps.push_back(std::move(qp));
      return;
    }
    case StatusPart::kCqs: {
      CompletionQueueStatus cq = read_completion_queue(object);
      cq.device = device_;
      cq.context = context_;
      program_of(pid_, "").cqs.push_back(std::move(cq));
      return;
    }
    case StatusPart::kSrqs:
      program_of(pid_, "").shared_receives += object["receive_outstanding"].get<std::uint32_t>();
      return;
    case StatusPart::kEmulator:
    case StatusPart::kRules:
    case StatusPart::kFaults:
    case StatusPart::kEnd:
      return;
  }
}

// Takes calls of librdmacm once, although each context of the process tells of them.
void Waits::take_destroys(ProgramStatus& program, const json& destroys) const {
  for (const json& object : destroys) {
    WaitingDestroyStatus destroy = read_waiting_destroy(object);
    destroy.context = destroy.number == 0 ? 0 : context_;
    const bool is_told = destroy.number == 0 && std::ranges::count(program.destroys, destroy) != 0;
    if (!is_told) program.destroys.push_back(std::move(destroy));
  }
}

void Waits::take_events(const std::string& lines, double now) {
  departures_.take(lines);
  now_ = now;
}

std::vector<Wait> Waits::found(const Waits& earlier) const {
  const auto owner_of = [this](const Departures::Missing& missing) {
    return departures_.owner_of(missing, address_of_, now_);
  };
  std::vector<Wait> waits;
  for (const auto& program : programs_) {
    for (std::string& text : reasons_of(*program, {programs_, earlier.programs_, owner_of})) {
      waits.push_back({program->pid, program->name, std::move(text)});
    }
  }
  // What devices have to say is of interest only beside programs.
  if (!waits.empty()) waits.insert(waits.end(), of_devices_.begin(), of_devices_.end());
  return waits;
}

}  // namespace verbena::cli
