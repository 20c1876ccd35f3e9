// SPDX-License-Identifier: BSD-2-Clause
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>

#include "command.hpp"

namespace verbena::cli {

using control::Outcome;
using settings::Settings;

namespace {

// Tells which settings of the file are not used, because the command line chooses devices, and is
// silent about them.
void tell_of_dropped(const std::string& path, const Settings& file, const Settings& line) {
  if (!line.chooses_devices()) return;
  std::string dropped;
  const auto look = [&dropped](const char* name, bool is_in_file, bool is_in_line) {
    if (is_in_file && !is_in_line) dropped += std::string(dropped.empty() ? "" : ", ") + name;
  };
  look("fabric", file.fabric.has_value(), line.fabric.has_value());
  look("roce", !file.roce.empty(), !line.roce.empty());
  look("devices", !file.devices.empty(), !line.devices.empty());
  if (dropped.empty()) return;
  complain(path + ": not used: " + dropped +
           "; any of --fabric, --roce and --device replaces all three settings of the file");
}

}  // namespace

void DeviceOptions::add_to(CLI::App& command) {
  command
      .add_option("--roce", roce, "Make a RoCEv2 device at this address of the host (repeatable)")
      ->type_name("ADDRESS")
      ->allow_extra_args(false);
  command
      .add_option("--fabric", fabric,
                  "Subnet of the InfiniBand ports, as 10.1.0.0/24; LIDs are its host parts")
      ->type_name("SUBNET");
  command
      .add_option("--device", devices,
                  "Name of a device (repeatable); RoCE devices get the first names")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command.add_option("--config", config, "Read settings from this TOML file")->type_name("FILE");
  command.add_option("--log-level", log_level, "trace, debug, info, warn, error or off")
      ->type_name("LEVEL");
}

Outcome<settings::Settings> DeviceOptions::read() const {
  if (!config.empty()) return read(config);
  const std::string path = settings::default_config_path();
  const bool is_there = !path.empty() && ::access(path.c_str(), F_OK) == 0;
  return read(is_there ? path : "");
}

Outcome<settings::Settings> DeviceOptions::read_without_default_file() const {
  return read(config);
}

void DeviceOptions::tell_of_unused_level(bool started_here) const {
  if (log_level.empty() || started_here) return;
  complain("--log-level is not used: the emulator was running already, with a level of its own");
}

Outcome<settings::Settings> DeviceOptions::read_line() const {
  settings::Settings line;
  if (!fabric.empty()) {
    const auto range = settings::parse_fabric(fabric);
    if (!range) return Failure<control::Error>{range.error()};
    line.fabric = *range;
  }
  for (const std::string& text : roce) {
    const auto address = settings::parse_roce_address(text);
    if (!address) return Failure<control::Error>{address.error()};
    line.roce.push_back(*address);
  }
  for (const std::string& text : devices) {
    const auto name = settings::parse_device_name(text);
    if (!name) return Failure<control::Error>{name.error()};
    line.devices.push_back(*name);
  }
  if (!log_level.empty()) {
    const auto level = settings::parse_log_level(log_level);
    if (!level) return Failure<control::Error>{level.error()};
    line.log_level = *level;
  }
  return line;
}

Outcome<settings::Settings> DeviceOptions::read(const std::string& path) const {
  auto line = read_line();
  if (!line) return line;
  settings::Settings all;
  if (!path.empty()) {
    auto file = settings::load_toml(path);
    if (!file) return file;
    all = *file;
  }
  tell_of_dropped(path, all, *line);
  all.override_with(*line);
  return all;
}

}  // namespace verbena::cli
