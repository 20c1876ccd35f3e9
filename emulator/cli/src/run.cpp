// SPDX-License-Identifier: BSD-2-Clause
// verbena run: a program, with the device in sight.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "command.hpp"
#include "emulator.hpp"
#include "parts.hpp"
#include "program_check.hpp"
#include "verbena/control/planned_failures.hpp"
#include "verbena/control/runtime_dir.hpp"

namespace verbena::cli {
namespace {

struct RunOptions {
  DeviceOptions devices;
  bool quiet = false;
  std::vector<std::string> failures;
  std::vector<std::string> command;
};

// The emulator stays while the process that we become lives. Where the kernel cannot watch a
// process, or a container engine forbids it (EPERM from a seccomp filter that does not know the
// call), an inherited connection says the same.
control::Outcome<control::Done> hold(Emulator& emulator) {
  const auto held = emulator.channel.call<control::Ack>(control::Hold{});
  if (held) return control::Done{};
  const int code = held.error().code;
  if (code != ENOSYS && code != EPERM) return Failure<control::Error>{held.error()};
  const int kept = ::dup(emulator.channel.fd());  // without close-on-exec
  if (kept < 0) return control::fail(errno, "no descriptor left");
  return control::Done{};
}

// As the driver reads it in the program.
std::string list_of(const std::vector<std::string>& failures) {
  std::string list;
  for (const std::string& failure : failures) list += (list.empty() ? "" : ",") + failure;
  return list;
}

int execute(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const int code = errno;
  const bool is_missing = code == ENOENT || code == ENOTDIR;
  return complain("cannot run " + command[0] + ": " + std::strerror(code),
                  is_missing ? kNotFound : kNotExecutable);
}

int run(const RunOptions& options) {
  const auto settings = options.devices.read();
  if (!settings) return complain(settings.error().text, kRunFailed);
  // Before anything is started: what the program's libraries would not take.
  const auto failures = control::parse_planned_failures(list_of(options.failures));
  if (!failures) return complain("--fail " + failures.error().text, kRunFailed);
  const auto parts = find_parts();
  if (!parts) return complain(parts.error().text, kRunFailed);
  const std::string dir = control::runtime_dir_path();
  const auto environment = device_environment(*parts, dir);
  if (!environment) return complain(environment.error().text, kRunFailed);

  // Once more if the one that we reached was just about to end.
  for (int attempt = 0;; ++attempt) {
    auto emulator = ensure_emulator(dir, *parts, *settings, true);
    if (!emulator) return complain(emulator.error().text, kRunFailed);
    const auto held = hold(*emulator);
    if (held) break;
    if (held.error().code != ECONNRESET || attempt == 10) {
      return complain(held.error().text, kRunFailed);
    }
  }
  for (const auto& [name, value] : *environment) ::setenv(name.c_str(), value.c_str(), 1);
  if (!options.failures.empty()) {
    ::setenv("VERBENA_FAIL", list_of(options.failures).c_str(), 1);
  }
  if (!options.quiet && settings->explain.value_or(true)) {
    ::setenv("VERBENA_LOG", "explain", 0);
    if (const auto reason = why_no_device(options.command[0])) complain(*reason);
  }
  return execute(options.command);
}

int complain_about_command(const std::vector<std::string>& command) {
  if (command.empty()) {
    return complain("run: name a program, for example: verbena run -- ibv_devinfo", kRunFailed);
  }
  return complain("run: unknown option " + command[0] + "; see verbena run --help", kRunFailed);
}

}  // namespace

void add_run(CLI::App& app, Context& context) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand(
      "run",
      "Run a program that sees the emulated device: verbena run [OPTIONS] [--] PROGRAM [ARGS...]\n"
      "Starts an emulator if none runs; that one ends after its last user. Exits as the program\n"
      "does; 127: not found, 126: not executable, 125: the emulator could not be had.");
  options->devices.add_to(*command);
  command->add_flag("--quiet", options->quiet,
                    "Do not explain refused verbs and error completions");
  command
      ->add_option("--fail", options->failures,
                   "A function that shall fail, as ibv_reg_mr=ENOMEM or rdma_connect=ETIMEDOUT; "
                   "...@3: its third call only; ...@3+: from the third on")
      ->allow_extra_args(false);
  // From the first word that is no option of ours on, everything belongs to the program.
  command->prefix_command();
  command->callback([options, command, &context] {
    options->command = command->remaining();
    if (context.behind_dashes) {
      if (!options->command.empty()) options->command.emplace_back("--");
      options->command.insert(options->command.end(), context.behind_dashes->begin(),
                              context.behind_dashes->end());
    }
    const bool is_named = !options->command.empty() && options->command[0][0] != '-';
    context.exit_code = is_named ? run(*options) : complain_about_command(options->command);
  });
}

}  // namespace verbena::cli
