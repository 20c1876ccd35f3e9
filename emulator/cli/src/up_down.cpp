// SPDX-License-Identifier: BSD-2-Clause
// verbena up and verbena down start and end the emulator.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "answer.hpp"
#include "command.hpp"
#include "emulator.hpp"
#include "parts.hpp"
#include "private_dirs.hpp"
#include "private_emulator.hpp"
#include "verbena/control/runtime_dir.hpp"

namespace verbena::cli {
namespace {

struct UpOptions {
  DeviceOptions devices;
  PrivateOption chosen;
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
  if (running)
    return complain("an emulator is running already; end it first: " + command_that_ends(dir));
  if (!is_absent(running.error())) return complain(running.error().text);
  std::vector<std::string> arguments = daemon_arguments(parts, dir, settings, {});
  arguments.emplace_back("--foreground");
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  unset_preload();
  ::execv(argv[0], argv.data());
  return complain("cannot start " + arguments[0] + ": " + std::strerror(errno));
}

void describe_as_json(const Emulator& emulator, Context& context) {
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (const control::DeviceInfo& d : emulator.welcome.devices) {
    const bool is_roce = d.persona == control::Persona::kRoce;
    devices.push_back({{"name", d.name},
                       {"persona", is_roce ? "RoCE" : "InfiniBand"},
                       {"address", d.address.to_string()},
                       {"interface", d.if_name},
                       {"lid", d.lid}});
  }
  print_answer(context, {{"started", emulator.started_here},
                         {"pid", emulator.welcome.daemon_pid},
                         {"devices", devices}});
}

void describe(const Emulator& emulator, Context& context) {
  if (context.as_json) return describe_as_json(emulator, context);
  std::printf("%s (pid %u)\n", emulator.started_here ? "emulator up" : "already up",
              emulator.welcome.daemon_pid);
  for (const control::DeviceInfo& d : emulator.welcome.devices) {
    std::printf("  %s\n", summary(d).c_str());
  }
}

int up_private(const UpOptions& options, const Parts& parts, const settings::Settings& settings,
               Context& context) {
  if (options.foreground) {
    return complain("--foreground is for the ordinary emulator: leave out --private", kUsage);
  }
  const auto begun = start_private_emulator(options.chosen.name, parts, settings, false);
  if (!begun) {
    const bool is_taken = begun.error().code == EEXIST;
    return complain(begun.error().text, is_taken ? kUsage : kFailed);
  }
  describe(begun->emulator, context);
  return kOk;
}

// `verbena run` may have started the emulator, to end with its last user. Tries again if the one
// that was reached is just about to end.
control::Outcome<Emulator> ensure_lasting_emulator(const std::string& dir, const Parts& parts,
                                                   const settings::Settings& settings) {
  constexpr int kAttempts = 10;
  for (int attempt = 1;; ++attempt) {
    auto emulator = ensure_emulator(dir, parts, settings, false);
    if (!emulator) return emulator;
    const auto stays = emulator->channel.call<control::Ack>(control::Stay{});
    if (stays) return emulator;
    if (stays.error().code != ECONNRESET || attempt == kAttempts) {
      return Failure<control::Error>{stays.error()};
    }
  }
}

int up(const UpOptions& options, Context& context) {
  if (options.foreground && context.as_json) {
    return complain("with --foreground `up` becomes the emulator: leave out --json", kUsage);
  }
  const bool is_private = !options.chosen.name.empty();
  const auto settings =
      is_private ? options.devices.read_without_default_file() : options.devices.read();
  if (!settings) {
    return complain(settings.error().text, options.devices.is_readable() ? kFailed : kUsage);
  }
  const auto parts = find_parts();
  if (!parts) return complain(parts.error().text);
  if (is_private) return up_private(options, *parts, *settings, context);
  sweep_private_dirs();
  const std::string dir = control::runtime_dir_path();
  if (options.foreground) return stay_in_foreground(dir, *parts, *settings);
  auto emulator = ensure_lasting_emulator(dir, *parts, *settings);
  if (!emulator) return complain(emulator.error().text);
  options.devices.tell_of_unused_level(emulator->started_here);
  describe(*emulator, context);
  return kOk;
}

int down(const PrivateOption& chosen, Context& context) {
  sweep_private_dirs();
  const auto tell = [&context](bool was_there) {
    if (context.as_json) {
      print_answer(context, {{"ended", was_there}});
    } else {
      std::puts(was_there ? "emulator down" : "no emulator is running");
    }
    return kOk;
  };
  auto emulator = reach_emulator(chosen.runtime_dir());
  if (!emulator && is_absent(emulator.error())) return tell(false);
  const bool is_foreign = !emulator && emulator.error().code == EPROTONOSUPPORT;
  if (!emulator && !is_foreign) return complain(emulator.error().text);
  const auto ended =
      is_foreign ? end_emulator_of_any_version(chosen.runtime_dir()) : end_emulator(*emulator);
  if (!ended) return complain(ended.error().text);
  return tell(true);
}

}  // namespace

void add_up(CLI::App& app, Context& context) {
  auto options = std::make_shared<UpOptions>();
  CLI::App* command = app.add_subcommand(
      "up",
      "Start the emulator; it stays until `verbena down`.\n"
      "Without options it has one InfiniBand device, verbena0, that only this host reaches.");
  options->devices.add_to(*command);
  options->chosen.add_to(*command);
  command->add_flag("--foreground", options->foreground,
                    "Stay in the terminal and log to it (not with --private or --json)");
  add_json_option(*command, context);
  command->callback([options, &context] { context.exit_code = up(*options, context); });
}

void add_down(CLI::App& app, Context& context) {
  auto chosen = std::make_shared<PrivateOption>();
  CLI::App* command = app.add_subcommand(
      "down", "End the emulator. Programs that use it get IBV_EVENT_DEVICE_FATAL.");
  chosen->add_to(*command);
  add_json_option(*command, context);
  command->callback([chosen, &context] { context.exit_code = down(*chosen, context); });
}

}  // namespace verbena::cli
