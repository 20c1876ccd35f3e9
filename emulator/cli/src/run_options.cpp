// SPDX-License-Identifier: BSD-2-Clause
#include "run_options.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "verbena/control/planned_failures.hpp"

namespace verbena::cli {
namespace {

// Returns false if JSON cannot hold the text as it is.
bool is_utf8(const std::string& text) {
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  constexpr std::string_view kReplaced = "\xef\xbf\xbd";
  const std::string written = nlohmann::json(text).dump(-1, ' ', false, kReplace);
  return written.find(kReplaced) == std::string::npos;
}

// Returns words from which every shell makes the text. Each byte that is not plain is an octal
// number.
std::string in_octal(const std::string& text) {
  std::string quoted = "\"$(printf '";
  for (const char c : text) {
    const unsigned byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte < 0x7f && c != '\'' && c != '\\' && c != '%') {
      quoted += c;
      continue;
    }
    quoted += '\\';
    for (const int shift : {6, 3, 0}) quoted += static_cast<char>('0' + ((byte >> shift) & 7));
  }
  return quoted + "')\"";
}

// Returns a word as a shell takes it, between quotes if need be.
std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+,./:@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  if (!is_utf8(text)) return in_octal(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

std::string RunOptions::failure_list() const {
  std::string list;
  for (const std::string& failure : failures) list += (list.empty() ? "" : ",") + failure;
  return list;
}

std::string RunOptions::failure_list_with(std::string_view inherited) const {
  const std::string own = failure_list();
  const auto named = control::parse_planned_failures(own);
  std::string list;
  while (named && !inherited.empty()) {
    const std::string_view item = inherited.substr(0, inherited.find(','));
    inherited.remove_prefix(std::min(item.size() + 1, inherited.size()));
    // An item that is wrong stays, so that the driver says what is wrong with it.
    const auto other = control::parse_planned_failures(item);
    const bool is_named = other && !other->empty() &&
                          std::ranges::any_of(*named, [&](const control::PlannedFailure& failure) {
                            return failure.function == other->front().function;
                          });
    if (!is_named && !item.empty()) list += std::string(item) + ",";
  }
  return list + own;
}

std::string RunOptions::command_that_repeats() const {
  std::string line;
  for (const std::string& variable : environment) {
    const std::size_t value = variable.find('=') + 1;
    line += variable.substr(0, value) + shell_word(variable.substr(value)) + " ";
  }
  line += shell_word(program);
  for (std::size_t i = 0; i < words.size(); ++i) {
    line += " " + shell_word(words[i]);
    if (i == 0 && is_seed_chosen_here) line += " --seed " + std::to_string(*seed);
  }
  return line;
}

CommandLine own_command_line() {
  std::ifstream line("/proc/self/cmdline");
  CommandLine own;
  std::getline(line, own.program, '\0');
  for (std::string word; std::getline(line, word, '\0');) own.words.push_back(word);
  if (own.program.find('/') != std::string::npos) {
    std::error_code ignored;  // without a current directory the path stays as it is
    const auto path = std::filesystem::absolute(own.program, ignored);
    if (!path.empty()) own.program = path;
  }
  return own;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (const char* name : {"VERBENA_LINK", "VERBENA_ENGINES", "VERBENA_FAIL", "VERBENA_ROLE"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr) variables.push_back(std::string(name) + "=" + value);
  }
  return variables;
}

}  // namespace verbena::cli
