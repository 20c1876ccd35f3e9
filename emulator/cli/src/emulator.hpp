// SPDX-License-Identifier: BSD-2-Clause
// Reaches the emulator of this user, and starts it when there is none. Many may start one at once:
// the losers wait for the winner (daemon/src/instance.hpp) and connect to it.
#pragma once

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include "parts.hpp"
#include "verbena/control/channel.hpp"
#include "verbena/control/connect.hpp"
#include "verbena/control/device_info.hpp"
#include "verbena/settings/settings.hpp"

namespace verbena::cli {

struct Emulator {
  control::Channel channel;
  control::Welcome welcome;
  bool started_here = false;
};

// Reaches a running emulator. ENOENT or ECONNREFUSED: none runs.
control::Outcome<Emulator> reach_emulator(const std::string& runtime_dir);

inline bool is_absent(const control::Error& error) {
  return error.code == ENOENT || error.code == ECONNREFUSED;
}

// Reaches the running emulator, or a new one with these settings. EEXIST: the running one has other
// devices than the settings ask for.
control::Outcome<Emulator> ensure_emulator(const std::string& runtime_dir, const Parts& parts,
                                           const settings::Settings& settings, bool ends_when_idle);

// Checks that the running emulator has the devices that the settings ask for. EEXIST: it has
// others.
control::Outcome<control::Done> check_devices(const std::string& runtime_dir,
                                              const settings::Settings& settings,
                                              const control::Welcome& welcome);

// Returns true if the emulator sees the same process ids as this process. It does not if it is
// outside of our container.
bool shares_numbers(const Emulator& emulator);

// Ends the emulator and waits for its end.
control::Outcome<control::Done> end_emulator(Emulator& emulator,
                                             int patience_ms = control::kDefaultTimeoutMs);
// Ends an emulator that does not speak our version of the protocol.
control::Outcome<control::Done> end_emulator_of_any_version(const std::string& runtime_dir);

// Checks that an emulator with these settings can be started: starts one in a directory of its own,
// beside those of private emulators, and ends it again.
control::Outcome<control::Done> try_emulator(const Parts& parts,
                                             const settings::Settings& settings);

struct DaemonOptions {
  bool ends_when_idle = false;
  bool is_private = false;  // chooses its subnet, and removes its files (private_emulator.hpp)
};

// Starts the daemon, unless one has the directory already.
enum class DaemonStart : std::uint8_t { kStarted, kRunsAlready };
control::Outcome<DaemonStart> start_daemon(const std::string& runtime_dir, const Parts& parts,
                                           const settings::Settings& settings,
                                           const DaemonOptions& options);

// Returns the devices that an emulator with these settings would have.
control::Outcome<std::vector<control::DeviceInfo>> planned_devices(
    const settings::Settings& settings);

// Keeps the preload library out of the daemon, which must see the kernel as it is, even if a shell
// shows the devices.
void unset_preload();

// Returns the daemon's arguments for these settings.
std::vector<std::string> daemon_arguments(const Parts& parts, const std::string& runtime_dir,
                                          const settings::Settings& settings,
                                          const DaemonOptions& options);

}  // namespace verbena::cli
