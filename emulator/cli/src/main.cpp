// SPDX-License-Identifier: BSD-2-Clause
// The main program of the command line `verbena`.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "answer.hpp"
#include "command.hpp"
#include "verbena/base/standard_streams.hpp"

namespace verbena::cli {
namespace {

// Returns how many letters must be changed, added or left out.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

int complain_about_word(const CLI::App& app, const std::string& word) {
  std::string hint = "see verbena --help";
  for (const CLI::App* command : app.get_subcommands({})) {
    if (distance(word, command->get_name()) <= 2)
      hint = "did you mean " + command->get_name() + "?";
  }
  return complain("there is no command \"" + word + "\"; " + hint, kUsage);
}

// Returns nullptr if there is no such command.
const CLI::App* find_command(const CLI::App& app, std::string_view word) {
  const auto is_meant = [word](const CLI::App* command) { return command->get_name() == word; };
  const std::vector<const CLI::App*> found = app.get_subcommands(is_meant);
  return found.empty() ? nullptr : found[0];
}

// Answers `verbena`, `verbena help`, `verbena help COMMAND` and words that are no command. Returns
// nothing if the line is to be parsed.
std::optional<int> answer_early(const CLI::App& app, int argc, char** argv) {
  if (argc < 2) {
    std::fputs(app.help().c_str(), stderr);
    return kUsage;
  }
  const std::string word = argv[1];
  const std::string asked = word == "help" && argc > 2 ? argv[2] : word;
  if (asked == "help" && argc == 2) {
    std::fputs(app.help().c_str(), stdout);
    return kOk;
  }
  if (asked == "-h" || asked == "--help" || asked == "--version") return std::nullopt;
  if (asked[0] == '-') {
    return complain(asked + " is no command, and options stand behind one; see verbena --help",
                    kUsage);
  }
  const CLI::App* command = find_command(app, asked);
  if (command == nullptr) return complain_about_word(app, asked);
  if (word != "help") return std::nullopt;
  std::fputs(command->help("verbena").c_str(), stdout);
  return kOk;
}

int print_version(Context& context) {
  if (context.as_json) {
    context.command = "version";
    print_answer(context, {{"version", VERBENA_VERSION}});
  } else {
    std::puts("verbena " VERBENA_VERSION);
  }
  return kOk;
}

// The help of `run` shows the program too.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    if (app->get_name() == "run") usage.insert(usage.find_last_not_of('\n') + 1, kProgramWords);
    return usage;
  }

 private:
  static constexpr const char* kProgramWords = " [--] PROGRAM [ARGS...]";
};

// answer_early() carries it out.
void add_help(CLI::App& app, std::string& command_name) {
  CLI::App* command =
      app.add_subcommand("help", "Print this help, or that of a command: verbena help COMMAND");
  command->add_option("command", command_name, "Name of the command");
}

void add_version(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("version", "Print the version.");
  add_json_option(*command, context);
  command->callback([&context] { context.exit_code = print_version(context); });
}

// Refuses empty words. A variable that is not set leaves one behind its option, which is not the
// same as no option: `--qp ""` is not all queue pairs.
void refuse_empty_words(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    for (CLI::Option* option : command->get_options()) {
      option->check([](const std::string& word) { return word.empty() ? "an empty word" : ""; });
    }
  }
}

void add_commands(CLI::App& app, Context& context) {
  add_run(app, context);
  add_up(app, context);
  add_down(app, context);
  add_status(app, context);
  add_env(app, context);
  add_doctor(app, context);
  add_port(app, context);
  add_fault(app, context);
  add_event(app, context);
  add_events(app, context);
  add_waits(app, context);
  add_capture(app, context);
  add_cdi(app, context);
  add_completion(app, context);
  add_version(app, context);
  refuse_empty_words(app);
}

int answer(int argc, char** argv, Context& context) {
  CLI::App app("", "verbena");
  app.description(
      "Verbena: an RDMA device in software, without kernel module and without root.\n\n"
      "  verbena run -- ibv_devinfo      run a program that sees the device\n"
      "  eval \"$(verbena env)\"           the same for a whole shell, after `verbena up`");
  app.set_version_flag("--version", VERBENA_VERSION);
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_formatter()->column_width(28);
  std::string helped;
  add_commands(app, context);
  add_help(app, helped);
  if (argc > 1 && find_command(app, argv[1]) != nullptr) context.command = argv[1];
  if (const auto answered = answer_early(app, argc, argv)) return *answered;
  int own = argc;
  if (argc > 2 && std::string_view(argv[1]) == "run") {
    for (own = 2; own < argc && std::string_view(argv[own]) != "--"; ++own) {
    }
    if (own < argc) context.behind_dashes.emplace(argv + own + 1, argv + argc);
  }
  try {
    app.parse(own, argv);
  } catch (const CLI::CallForVersion&) {
    return print_version(context);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // help was asked for
    const bool is_run = std::string_view(argv[1]) == "run";
    return complain(std::string(e.what()) + "; see verbena --help", is_run ? kRunFailed : kUsage);
  }
  return context.exit_code;
}

// Fails if the output was not written, so that half of an answer is not taken for all of it. A
// reader that has gone wants no more.
int check_output(int exit_code) {
  const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (is_written || exit_code != kOk || errno == EPIPE) return exit_code;
  return complain(std::string("cannot write the output: ") + std::strerror(errno));
}

}  // namespace
}  // namespace verbena::cli

int main(int argc, char** argv) {
  using namespace verbena::cli;
  verbena::fill_closed_streams();
  Context context;
  context.as_json = asks_for_json(argc, argv);
  try {
    context.exit_code = answer(argc, argv, context);
  } catch (const std::exception& e) {
    context.exit_code = complain(e.what(), context.command == "run" ? kRunFailed : kFailed);
  }
  if (context.as_json && context.exit_code != kOk && !context.has_answered) {
    print_failure(context, {});
  }
  return check_output(context.exit_code);
}
