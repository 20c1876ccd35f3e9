// SPDX-License-Identifier: BSD-2-Clause
// verbena completion prints scripts for shells, made from the commands as they are declared.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "command.hpp"

namespace verbena::cli {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* sub) { return !sub->get_name().empty(); });
}

// Returns the words that may follow a command: its options, and the choices of its positionals.
std::vector<std::string> words_of(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  if (command.get_name() == "port") {
    words.insert(words.end(),
                 {"up", "down", "lid-change", "gid-change", "pkey-change", "sm-change"});
  }
  if (command.get_name() == "event") {
    const std::vector<std::string> events = event_words();
    words.insert(words.end(), events.begin(), events.end());
  }
  if (command.get_name() == "completion") words.insert(words.end(), {"bash", "zsh", "fish"});
  return words;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
  return joined(names);
}

// After "--" `run` is followed by another command line.
void print_bash(const CLI::App& app) {
  std::printf(
      "_verbena() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} i\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W '%s --help --version' -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${COMP_WORDS[1]} in\n",
      command_names(app).c_str());
  for (const CLI::App* command : commands_of(app)) {
    std::printf("    %s)\n", command->get_name().c_str());
    if (command->get_name() == "run") {
      std::printf(
          "      for ((i = 2; i < COMP_CWORD; i++)); do\n"
          "        if [[ ${COMP_WORDS[i]} == -- ]]; then\n"
          "          COMPREPLY=($(compgen -c -- \"$word\") $(compgen -f -- \"$word\"))\n"
          "          return\n"
          "        fi\n"
          "      done\n");
    }
    std::printf("      COMPREPLY=($(compgen -W '%s' -- \"$word\") $(compgen -f -- \"$word\")) ;;\n",
                joined(words_of(*command)).c_str());
  }
  std::printf("  esac\n}\ncomplete -F _verbena verbena\n");
}

void print_zsh(const CLI::App& app) {
  std::printf("#compdef verbena\n_verbena() {\n  if ((CURRENT == 2)); then\n    local -a names\n");
  std::printf("    names=(\n");
  for (const CLI::App* command : commands_of(app)) {
    std::printf("      '%s:%s'\n", command->get_name().c_str(),
                first_line(command->get_description()).c_str());
  }
  std::printf("    )\n    _describe command names\n    return\n  fi\n  case $words[2] in\n");
  std::printf(
      "    run) if (($words[(I)--])); then _command_names -e; _files; return; fi ;;\n  esac\n"
      "  case $words[2] in\n");
  for (const CLI::App* command : commands_of(app)) {
    std::printf("    %s) compadd -- %s ;;\n", command->get_name().c_str(),
                joined(words_of(*command)).c_str());
  }
  // The script works as a file of $fpath and by eval.
  std::printf(
      "  esac\n  _files\n}\n"
      "if [[ $funcstack[1] == _verbena ]]; then _verbena; else compdef _verbena verbena; fi\n");
}

// Returns the text between single quotes of fish, in which nothing is expanded.
std::string quoted_for_fish(const std::string& text) {
  std::string quoted = "'";
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') quoted += '\\';
    quoted += letter;
  }
  return quoted + "'";
}

void print_fish(const CLI::App& app) {
  for (const CLI::App* command : commands_of(app)) {
    const std::string name = command->get_name();
    std::printf("complete -c verbena -n __fish_use_subcommand -f -a %s -d %s\n", name.c_str(),
                quoted_for_fish(first_line(command->get_description())).c_str());
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& word : option->get_lnames()) {
        std::printf("complete -c verbena -n '__fish_seen_subcommand_from %s' -l %s -d %s\n",
                    name.c_str(), word.c_str(),
                    quoted_for_fish(first_line(option->get_description())).c_str());
      }
    }
  }
}

}  // namespace

void add_completion(CLI::App& app, Context&) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "completion", "Print a completion script, for example: eval \"$(verbena completion bash)\"");
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &app] {
    if (*shell == "bash") return print_bash(app);
    if (*shell == "zsh") return print_zsh(app);
    print_fish(app);
  });
}

}  // namespace verbena::cli
