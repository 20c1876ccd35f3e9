// SPDX-License-Identifier: BSD-2-Clause
// The options that say how bad the network shall be, for `fault` and `run`.
#pragma once

#include <string>
#include <vector>

#include "verbena/control/error.hpp"
#include "verbena/control/messages.hpp"

namespace CLI {
class App;
}

namespace verbena::cli {

struct FaultOptions {
  std::string device;
  std::string qpn;
  std::string loss;
  std::string duplicate;
  std::string reorder;
  std::string corrupt;
  std::string delay;
  std::string jitter;
  std::string rate;
  std::string seed;
  std::vector<std::string> inject;
  std::string scenario;
  bool data = false;
  bool cm = false;
  bool clear = false;

  // Which faults, their seed, and whose packets meet them.
  void add_to(CLI::App& command);
  // --device, --qp and --clear, of `fault` alone.
  void add_target_to(CLI::App& command);
  bool names_fault() const;
  bool has_rules() const { return !inject.empty() || !scenario.empty(); }
  // A fault, its seed, or whose it is.
  bool is_given() const { return names_fault() || !seed.empty() || data || cm; }
  // What the emulator is asked for. The error names the word that is wrong.
  control::Outcome<control::ChangeFault> change() const;
};

}  // namespace verbena::cli
