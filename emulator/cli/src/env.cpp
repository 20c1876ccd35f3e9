// SPDX-License-Identifier: BSD-2-Clause
// verbena env: what a shell must export to see the device.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "command.hpp"
#include "emulator.hpp"
#include "parts.hpp"
#include "private_emulator.hpp"

namespace verbena::cli {
namespace {

// Between single quotes everything is itself but the quote, in sh and in fish (which also
// takes a backslash).
std::string quoted(const std::string& text, bool fish) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += fish ? "\\'" : "'\\''";
    } else if (c == '\\' && fish) {
      out += "\\\\";
    } else {
      out += c;
    }
  }
  return out + "'";
}

int print_environment(const PrivateOption& chosen, const std::string& shell) {
  const auto parts = find_parts();
  if (!parts) return complain(parts.error().text);
  const std::string dir = chosen.runtime_dir();
  const auto environment = device_environment(*parts, dir);
  if (!environment) return complain(environment.error().text);
  const bool fish = shell == "fish";
  for (const auto& [name, value] : *environment) {
    std::printf(fish ? "set -gx %s %s;\n" : "export %s=%s\n", name.c_str(),
                quoted(value, fish).c_str());
  }
  const auto running = control::connect_to_daemon(dir);
  if (!running && is_absent(running.error())) {
    const std::string name = chosen.name.empty() ? "" : " --private " + chosen.name;
    std::fprintf(stderr,
                 "verbena: note: no emulator is running yet; start one with: verbena up%s\n",
                 name.c_str());
  }
  return kOk;
}

}  // namespace

void add_env(CLI::App& app, Context& context) {
  auto shell = std::make_shared<std::string>("sh");
  auto chosen = std::make_shared<PrivateOption>();
  CLI::App* command =
      app.add_subcommand("env", "Print what to export for a shell: eval \"$(verbena env)\"");
  command->add_option("--shell", *shell, "sh (also bash, zsh) or fish")
      ->check(CLI::IsMember({"sh", "bash", "zsh", "fish"}))
      ->capture_default_str();
  chosen->add_to(*command);
  command->callback(
      [chosen, shell, &context] { context.exit_code = print_environment(*chosen, *shell); });
}

}  // namespace verbena::cli
