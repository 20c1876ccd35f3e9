// SPDX-License-Identifier: BSD-2-Clause
// verbena up, verbena down.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "command.hpp"
#include "emulator.hpp"
#include "parts.hpp"
#include "verbena/control/runtime_dir.hpp"

namespace verbena::cli {
namespace {

struct UpOptions {
  DeviceOptions devices;
  bool foreground = false;
};

std::string summary(const control::DeviceInfo& d) {
  if (d.persona == control::Persona::kRoce) {
    return d.name + ": RoCEv2 at " + d.address.to_string() + " on " + d.if_name;
  }
  return d.name + ": InfiniBand, LID " + std::to_string(d.lid) + ", at " + d.address.to_string();
}

// Becomes the daemon, which logs to this terminal.
int stay_in_foreground(const std::string& dir, const Parts& parts,
                       const settings::Settings& settings) {
  const auto running = reach_emulator(dir);
  if (running) return complain("an emulator is running already; end it first: verbena down");
  if (!is_absent(running.error())) return complain(running.error().text);
  std::vector<std::string> arguments = daemon_arguments(parts, dir, settings);
  arguments.emplace_back("--foreground");
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  return complain("cannot start " + arguments[0] + ": " + std::strerror(errno));
}

int up(const UpOptions& options) {
  const auto settings = options.devices.read();
  if (!settings) return complain(settings.error().text);
  const auto parts = find_parts();
  if (!parts) return complain(parts.error().text);
  const std::string dir = control::runtime_dir_path();
  if (options.foreground) return stay_in_foreground(dir, *parts, *settings);
  auto emulator = ensure_emulator(dir, *parts, *settings, false);
  if (!emulator) return complain(emulator.error().text);
  // It may have been started by `verbena run`, to end with its last user.
  const auto stays = emulator->channel.call<control::Ack>(control::Stay{});
  if (!stays) return complain(stays.error().text);
  std::printf("%s (pid %u)\n", emulator->started_here ? "emulator up" : "already up",
              emulator->welcome.daemon_pid);
  for (const control::DeviceInfo& d : emulator->welcome.devices) {
    std::printf("  %s\n", summary(d).c_str());
  }
  return kOk;
}

int down() {
  auto emulator = reach_emulator(control::runtime_dir_path());
  if (!emulator && is_absent(emulator.error())) {
    std::printf("no emulator is running\n");
    return kOk;
  }
  if (!emulator) return complain(emulator.error().text);
  const auto ended = end_emulator(*emulator);
  if (!ended) return complain(ended.error().text);
  std::printf("emulator down\n");
  return kOk;
}

}  // namespace

void add_up(CLI::App& app, Context& context) {
  auto options = std::make_shared<UpOptions>();
  CLI::App* command = app.add_subcommand(
      "up",
      "Start the emulator; it stays until `verbena down`.\n"
      "Without options it has one InfiniBand device, verbena0, that only this host reaches.");
  options->devices.add_to(*command);
  command->add_flag("--foreground", options->foreground, "Stay in the terminal and log to it");
  command->callback([options, &context] { context.exit_code = up(*options); });
}

void add_down(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand(
      "down", "End the emulator. Programs that use it get IBV_EVENT_DEVICE_FATAL.");
  command->callback([&context] { context.exit_code = down(); });
}

}  // namespace verbena::cli
