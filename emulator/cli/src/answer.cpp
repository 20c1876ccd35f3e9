// SPDX-License-Identifier: BSD-2-Clause
#include "answer.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

namespace verbena::cli {
namespace {

std::string& last_complaint() {
  static std::string text;
  return text;
}

}  // namespace

int complain(const std::string& text, int code) {
  std::fprintf(stderr, "verbena: %s\n", text.c_str());
  last_complaint() = text;
  return code;
}

// The words of `run` belong to its program.
bool asks_for_json(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) == "run") return false;
  return std::find(argv + 1, argv + argc, std::string_view("--json")) != argv + argc;
}

CLI::Option* add_json_option(CLI::App& command, Context& context) {
  return command.add_flag("--json", context.as_json, "Print JSON, for programs");
}

void print_answer(Context& context, const nlohmann::ordered_json& members) {
  nlohmann::ordered_json answer{{"command", nullptr}};
  if (!context.command.empty()) answer["command"] = context.command;
  answer.update(members);
  // Replaces bytes of file names and programs that are not UTF-8.
  const auto replaced = nlohmann::ordered_json::error_handler_t::replace;
  std::puts(answer.dump(-1, ' ', false, replaced).c_str());
  context.has_answered = true;
}

void print_failure(Context& context, nlohmann::ordered_json members) {
  members["error"] = last_complaint();
  members["exit_code"] = context.exit_code;
  print_answer(context, members);
}

}  // namespace verbena::cli
