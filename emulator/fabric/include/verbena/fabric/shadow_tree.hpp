// SPDX-License-Identifier: BSD-2-Clause
// The files that stand in for /sys and /dev: <runtime dir>/shadow/sys/class/{infiniband,
// infiniband_verbs,infiniband_mad} and shadow/dev/infiniband. The tree appears in one step: it is
// built next to its place and renamed. Later only the contents of files change, in place, because
// libibverbs takes a directory with a new modification time for another device. The daemon owns it.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "verbena/control/device_info.hpp"
#include "verbena/control/error.hpp"
#include "verbena/fabric/totals.hpp"

namespace verbena::fabric {

class ShadowTree {
 public:
  explicit ShadowTree(std::string root) : root_(std::move(root)) {}

  // Replaces what was there, and owns it.
  control::Outcome<control::Done> create(const std::vector<control::DeviceInfo>& devices);
  void write_port(const control::DeviceInfo& device);
  void write_counters(const control::DeviceInfo& device, const Totals& totals);
  // Does nothing if it was given up.
  void remove();
  // Leaves what is at its place to another daemon, and writes no more into it.
  void give_up() { is_given_up_ = true; }

  const std::string& root() const { return root_; }

 private:
  void build(const std::string& at, const std::vector<control::DeviceInfo>& devices);
  static void write_ndev(const std::string& path, const std::string& interface);
  void replace(const std::string& path, const std::string& text);

  std::string root_;
  bool is_given_up_ = false;
  std::unordered_map<std::string, std::string> written_;  // path -> content
};

}  // namespace verbena::fabric
