// SPDX-License-Identifier: BSD-2-Clause
// The options of `fault` and `run` that say how bad the network is.
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

  // Adds the options for faults, their seed, and the packets that meet them.
  void add_to(CLI::App& command);
  // Adds --device, --qp and --clear, which only `fault` has.
  void add_target_to(CLI::App& command);
  bool names_fault() const;
  bool has_rules() const { return !inject.empty() || !scenario.empty(); }
  // Returns true if a fault is given, or its seed, or whose packets meet it.
  bool is_given() const { return names_fault() || !seed.empty() || data || cm; }
  // Returns the request to the emulator. The error names the word that is wrong.
  control::Outcome<control::ChangeFault> change() const;
};

}  // namespace verbena::cli
