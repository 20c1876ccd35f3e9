// SPDX-License-Identifier: BSD-2-Clause
// Finds what programs wait for, from the status of their objects, for a user who looks at a program
// that hangs. It looks from outside: what it says is true, but the user must judge whether it is
// the reason. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "departures.hpp"
#include "verbena/control/status_messages.hpp"

namespace verbena::cli {

// One thing about one program, or with pid 0 about the device whose name `program` is.
struct Wait {
  std::uint32_t pid = 0;
  std::string program;
  std::string text;
};

// Returns "PROGRAM[PID]: TEXT", with '?' in place of control characters.
std::string text_of(const Wait& wait);

struct ProgramStatus;

class Waits {
 public:
  Waits();
  ~Waits();
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;

  // Takes the parts of a status in their order, as read_status() hands them out.
  void take(control::StatusPart part, const std::string& lines);
  // Takes what has happened before, in the lines that `verbena events --json` prints. `now` is the
  // time of day in seconds.
  void take_events(const std::string& lines, double now);

  // Returns what each program waits for, and then what there is to say about devices. `earlier` is
  // the status a moment ago: of a program that has been at work since then, only that is said.
  std::vector<Wait> found(const Waits& earlier) const;

 private:
  void take_object(control::StatusPart part, const std::string& line);
  void take_destroys(ProgramStatus& program, const nlohmann::json& destroys) const;
  ProgramStatus& program_of(std::uint32_t pid, const std::string& name);

  std::vector<std::unique_ptr<ProgramStatus>> programs_;
  std::vector<Wait> of_devices_;
  std::map<std::string, std::string> address_of_;  // addresses of devices, by name
  Departures departures_;
  double now_ = 0;
  // The device and the context whose parts come now.
  std::string device_;
  std::string device_address_;
  std::uint32_t pid_ = 0;
  std::uint32_t context_ = 0;
};

}  // namespace verbena::cli
