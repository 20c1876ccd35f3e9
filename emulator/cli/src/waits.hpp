// SPDX-License-Identifier: BSD-2-Clause
// What programs wait for, told from the status of their objects: for whoever looks at a program
// that hangs. It is a look from outside at one moment: what it says is so, and whether it is the
// reason is left to the reader. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "verbena/control/status_messages.hpp"

namespace verbena::cli {

// One thing about one program; pid 0: about a device, whose name it is.
struct Wait {
  std::uint32_t pid = 0;
  std::string program;
  std::string text;
};

// "PROGRAM[PID]: TEXT"
std::string text_of(const Wait& wait);

struct ProgramStatus;

class Waits {
 public:
  Waits();
  ~Waits();
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;

  // The parts of a status in their order, as read_status() hands them out.
  void take(control::StatusPart part, const std::string& lines);

  // Of all programs, one after the other, then of devices.
  std::vector<Wait> found() const;

 private:
  void take_object(control::StatusPart part, const std::string& line);
  ProgramStatus& program_of(std::uint32_t pid, const std::string& name);

  std::string device_address_;  // of the device whose parts come now
  std::uint32_t pid_ = 0;       // and of the context
  std::vector<std::unique_ptr<ProgramStatus>> programs_;
  std::vector<Wait> of_devices_;
};

}  // namespace verbena::cli
