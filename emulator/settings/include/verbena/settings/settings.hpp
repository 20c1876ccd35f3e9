// SPDX-License-Identifier: BSD-2-Clause
// What a user may choose for an emulator, on the command line or in a TOML file, as a plain value.
// `verbena` and `verbenad` share it, so that both read the same words in the same way.
//
//   fabric = "127.1.0.0/24"          # the InfiniBand ports' subnet
//   roce = ["192.168.1.5"]           # one RoCEv2 device for each address
//   devices = ["verbena0", "mlx5_0"] # names
//   log_level = "info"
//   explain = true                   # `verbena run` explains refused verbs
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verbena/base/address.hpp"
#include "verbena/control/address_plan.hpp"
#include "verbena/control/error.hpp"

namespace verbena::settings {

// An IPv4 subnet ("10.1.0.0/24"). With a host part ("10.1.0.7/24") it begins at the first device's
// address.
struct FabricRange {
  IpAddress address;
  std::uint8_t prefix_length = 0;

  control::Subnet subnet() const;
  bool has_host_part() const;
  std::string to_string() const;
  bool operator==(const FabricRange&) const = default;
};

struct Settings {
  std::optional<FabricRange> fabric;
  std::vector<IpAddress> roce;
  std::vector<std::string> devices;
  std::optional<std::string> log_level;
  std::optional<bool> explain;

  bool chooses_devices() const { return fabric || !roce.empty() || !devices.empty(); }
  // Replaces the settings that `over` has.
  void override_with(const Settings& over);
  bool operator==(const Settings&) const = default;
};

// Parse one word. Each error names the word and says what is expected.
control::Outcome<FabricRange> parse_fabric(std::string_view text);
control::Outcome<IpAddress> parse_roce_address(std::string_view text);
control::Outcome<std::string> parse_device_name(std::string_view text);
control::Outcome<std::string> parse_log_level(std::string_view text);

// Parses a file's text. `origin` names it in errors. An unknown key is an error, which says its
// line.
control::Outcome<Settings> parse_toml(std::string_view text, const std::string& origin);
control::Outcome<Settings> load_toml(const std::string& path);

// Returns $XDG_CONFIG_HOME/verbena/config.toml or ~/.config/verbena/config.toml; empty without a
// home.
std::string default_config_path();

}  // namespace verbena::settings
