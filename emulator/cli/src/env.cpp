// SPDX-License-Identifier: BSD-2-Clause
// verbena env prints what a shell must export to see the device.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "answer.hpp"
#include "command.hpp"
#include "emulator.hpp"
#include "parts.hpp"
#include "private_emulator.hpp"

namespace verbena::cli {
namespace {

// Quotes a text. Between single quotes every character stands for itself except the quote, and in
// fish the backslash.
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

void print_exports(const Environment& environment, const std::string& shell) {
  const bool fish = shell == "fish";
  for (const auto& [name, value] : environment) {
    std::printf(fish ? "set -gx %s %s;\n" : "export %s=%s\n", name.c_str(),
                quoted(value, fish).c_str());
  }
}

int print_environment(const PrivateOption& chosen, const std::string& shell, Context& context) {
  const auto parts = find_parts();
  if (!parts) return complain(parts.error().text);
  const std::string dir = chosen.runtime_dir();
  const auto environment = device_environment(*parts, dir);
  if (!environment) return complain(environment.error().text);
  const auto running = control::connect_to_daemon(dir);
  const bool is_absent_here = !running && is_absent(running.error());
  if (context.as_json) {
    nlohmann::ordered_json variables = nlohmann::ordered_json::object();
    for (const auto& [variable, value] : *environment) variables[variable] = value;
    print_answer(context, {{"running", !is_absent_here}, {"variables", variables}});
    return kOk;
  }
  print_exports(*environment, shell);
  if (is_absent_here) {
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
  CLI::App* command = app.add_subcommand(
      "env", "Print the variables to export for a shell: eval \"$(verbena env)\"");
  CLI::Option* shell_option = command->add_option("--shell", *shell, "sh (also bash, zsh) or fish");
  shell_option->check(CLI::IsMember({"sh", "bash", "zsh", "fish"}))->capture_default_str();
  chosen->add_to(*command);
  add_json_option(*command, context)->excludes(shell_option);
  command->callback([chosen, shell, &context] {
    context.exit_code = print_environment(*chosen, *shell, context);
  });
}

}  // namespace verbena::cli
