// SPDX-License-Identifier: BSD-2-Clause
// verbena run lets a program see the device. Without a reason to stay this process becomes the
// program, unless it is process 1; otherwise it is the program's parent (supervised_run.hpp).
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "children.hpp"
#include "command.hpp"
#include "emulator.hpp"
#include "parts.hpp"
#include "private_emulator.hpp"
#include "run_options.hpp"
#include "supervised_run.hpp"
#include "verbena/control/planned_failures.hpp"
#include "verbena/control/runtime_dir.hpp"

namespace verbena::cli {
namespace {

using control::Done;
using control::Error;
using control::fail;
using control::Outcome;

// The words of the command line that are checked when all are known.
struct RunWords {
  RunOptions options;
  std::vector<std::string> privacy;  // names of --private; "true": without a name
  std::string time_limit;
};

// Makes the emulator stay while the process that we become lives. If the kernel cannot watch a
// process, a container engine forbids it (EPERM from a seccomp filter that does not know the call),
// or the emulator runs in a container from which it does not see our process (EINVAL: it has number
// 0 there), an inherited connection does the same.
Outcome<Done> hold(Emulator& emulator) {
  const auto held = emulator.channel.call<control::Ack>(control::Hold{});
  if (held) return Done{};
  const int code = held.error().code;
  if (code != ENOSYS && code != EPERM && code != EINVAL) return Failure<Error>{held.error()};
  const int kept = ::dup(emulator.channel.fd());  // without close-on-exec
  if (kept < 0) return fail(errno, "no descriptor left");
  return Done{};
}

// Runs the program as a child. What it has started ends with this process, as in each container.
int run_below_process_1(Children& children, const std::vector<std::string>& command) {
  const auto program = children.start(command, {});
  if (!program) return complain(program.error().text, kRunFailed);
  while (!children.exit_code_of(*program)) children.wait(kNever);
  return *children.exit_code_of(*program);
}

int become_program(const RunOptions& options, const Parts& parts,
                   const settings::Settings& settings) {
  // Process 1 of a container stays and is the program's parent: the kernel drops signals that
  // process 1 does not handle, and orphans become its children, which it must reap.
  std::optional<Children> children;
  if (::getpid() == 1) children.emplace(Children::Signals::kToFirst);
  const std::string dir = control::runtime_dir_path();
  const auto environment = device_environment(parts, dir);
  if (!environment) return complain(environment.error().text, kRunFailed);

  // Tries again if the emulator that was reached is just about to end.
  for (int attempt = 0;; ++attempt) {
    auto emulator = ensure_emulator(dir, parts, settings, true);
    if (!emulator) return complain(emulator.error().text, kRunFailed);
    if (attempt == 0) options.devices.tell_of_unused_level(emulator->started_here);
    const auto held = hold(*emulator);
    if (held) break;
    if (held.error().code != ECONNRESET || attempt == 10) {
      return complain(held.error().text, kRunFailed);
    }
  }
  for (const auto& [name, value] : *environment) ::setenv(name.c_str(), value.c_str(), 1);
  set_program_environment(options, settings);
  return children ? run_below_process_1(*children, options.command) : execute(options.command);
}

int run(const RunOptions& options) {
  const auto settings =
      options.is_private ? options.devices.read_without_default_file() : options.devices.read();
  if (!settings) return complain(settings.error().text, kRunFailed);
  // Refuses what the program's libraries would not take, before anything is started.
  const auto failures = control::parse_planned_failures(options.failure_list());
  if (!failures) return complain("--fail " + failures.error().text, kRunFailed);
  const auto parts = find_parts();
  if (!parts) return complain(parts.error().text, kRunFailed);
  return options.needs_parent() ? supervised_run(options, *parts, *settings)
                                : become_program(options, *parts, *settings);
}

Outcome<TimeNs> parse_seconds(const std::string& text) {
  constexpr double kMost = 1e6;
  double seconds = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool is_number = parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
  if (!is_number || !(seconds > 0) || seconds > kMost) {
    return fail(EINVAL, "--timeout \"" + text + "\" is no number of seconds, such as 90 or 0.5");
  }
  return static_cast<TimeNs>(std::llround(seconds * 1e9));
}

// Returns what is wrong with the program that was named, or was not. Behind "--" its name may begin
// with a dash.
std::string wrong_command(const RunOptions& options, bool is_behind_dashes) {
  const std::vector<std::string>& command = options.command;
  if (!options.pair.empty()) {
    if (command.empty()) return {};
    return "run: --pair names both programs; leave out " + command[0];
  }
  if (command.empty()) return "run: name a program, for example: verbena run -- ibv_devinfo";
  if (is_behind_dashes || command[0][0] != '-') return {};
  return "run: unknown option " + command[0] + "; see verbena run --help";
}

// Takes over the words that need a check. Returns what is wrong with them; empty: nothing.
std::string take_words(RunWords& words, bool is_behind_dashes) {
  RunOptions& options = words.options;
  options.is_private = !words.privacy.empty();
  for (const std::string& name : words.privacy) {
    if (name == "true") continue;
    if (!options.name.empty() && name != options.name) {
      return "run: --private names two emulators, " + options.name + " and " + name + ": name one";
    }
    options.name = name;
    if (std::string wrong = wrong_private_name(options.name); !wrong.empty()) return wrong;
  }
  if (!words.time_limit.empty()) {
    const auto limit = parse_seconds(words.time_limit);
    if (!limit) return limit.error().text;
    options.time_limit_ns = *limit;
  }
  if (options.faults.is_given() && !options.is_private) {
    return "faults are for all programs of an emulator: take one of your own with --private";
  }
  const FaultOptions& faults = options.faults;
  if ((faults.data || faults.cm) && !faults.names_fault()) {
    return "--data and --cm say which packets meet a fault: name one, as --loss 1%";
  }
  if (options.capture == "-") {
    return "--capture -: the standard output is the program's; name a file";
  }
  if (options.requires_fired && !options.faults.has_rules()) {
    return "--require-fired is about rules: name some with --inject or --scenario";
  }
  return wrong_command(options, is_behind_dashes);
}

void add_options(CLI::App& command, RunWords& words) {
  RunOptions& options = words.options;
  options.devices.add_to(command);
  command.add_flag("--quiet", options.quiet, "Do not explain refused verbs and error completions");
  command
      .add_option("--fail", options.failures,
                  "Make a function fail, as ibv_reg_mr=ENOMEM or rdma_connect=ETIMEDOUT; with @3 "
                  "only its third call, with @3+ the third and all later calls (repeatable)")
      ->allow_extra_args(false);
  command.add_flag(
      "--private", words.privacy,
      "Start an emulator for this run alone; it ends when the program and all processes "
      "that it started have ended. With --private=NAME other commands can reach it");
  command.add_option("--pair", options.pair, "Run two shell commands instead of a program")
      ->type_name("SERVER CLIENT")
      ->expected(2);
  command
      .add_option("--timeout", words.time_limit, "End the run after this time, with exit code 124")
      ->type_name("SECONDS");
  command.add_option("--capture", options.capture, "Write all packets to this pcapng file")
      ->type_name("FILE");
  command
      .add_option("--artifacts", options.artifacts,
                  "Keep counters, events, packets and explanations of the run in this directory")
      ->type_name("DIR");
  // A group of their own says in the help that they need --private.
  const std::vector<CLI::Option*> others = command.get_options();
  options.faults.add_to(command);
  command.add_flag("--require-fired", options.requires_fired,
                   "Exit with 3 if the program has passed but a rule never fired");
  for (CLI::Option* option : command.get_options()) {
    if (std::ranges::find(others, option) == others.end()) option->group("Only with --private");
  }
}

}  // namespace

void add_run(CLI::App& app, Context& context) {
  auto words = std::make_shared<RunWords>();
  CLI::App* command = app.add_subcommand(
      "run",
      "Run a program that sees the emulated device.\n"
      "Starts an emulator if none runs, which ends when its last program has ended. Exits with "
      "the\n"
      "program's exit code, or with 127: program not found, 126: program not executable,\n"
      "125: the emulator could not be started or reached, or the command line is wrong,\n"
      "124: time limit, 3: a rule never fired (--require-fired).");
  add_options(*command, *words);
  // From the first word on that is no option of ours, everything belongs to the program.
  command->prefix_command();
  command->callback([words, command, &context] {
    RunOptions& options = words->options;
    CommandLine own = own_command_line();
    options.program = std::move(own.program);
    options.words = std::move(own.words);
    options.environment = own_environment();
    options.command = command->remaining();
    const bool is_behind_dashes = options.command.empty();
    if (context.behind_dashes) {
      if (!options.command.empty()) options.command.emplace_back("--");
      options.command.insert(options.command.end(), context.behind_dashes->begin(),
                             context.behind_dashes->end());
    }
    const std::string wrong = take_words(*words, is_behind_dashes);
    context.exit_code = wrong.empty() ? run(options) : complain(wrong, kRunFailed);
  });
}

}  // namespace verbena::cli
