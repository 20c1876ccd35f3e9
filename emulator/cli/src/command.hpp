// SPDX-License-Identifier: BSD-2-Clause
// The commands of `verbena`, one file each. Each is an `add_<name>(app, context)`, which declares
// the command to CLI11 and leaves its work behind as a callback. The result is the program's exit
// code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "verbena/control/error.hpp"
#include "verbena/settings/settings.hpp"

namespace CLI {
class App;
}

namespace verbena::cli {

// Exit codes. `run` uses those of env(1), because its own failure must not look like the program's.
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kTimedOut = 124;
inline constexpr int kRunFailed = 125;
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;

struct Context {
  std::string command;  // its name; empty: the command line names no command
  int exit_code = kOk;
  bool as_json = false;       // asks for JSON (answer.hpp)
  bool has_answered = false;  // an answer in JSON was printed
  // The words behind the first "--" of `verbena run`, which are not parsed.
  std::optional<std::vector<std::string>> behind_dashes;
};

// The options that choose devices, for `up` and `run`.
struct DeviceOptions {
  std::string config;
  std::string fabric;
  std::vector<std::string> roce;
  std::vector<std::string> devices;
  std::string log_level;

  void add_to(CLI::App& command);
  // Reads the file first (the default one only if it exists), then the command line. Says which
  // settings of the file the command line has made void.
  control::Outcome<settings::Settings> read() const;
  // Leaves out the user's default file, for an emulator that is the same for every user.
  control::Outcome<settings::Settings> read_without_default_file() const;
  // Returns false if the command line itself is wrong, whatever the file says.
  bool is_readable() const { return read_line().ok(); }
  // Says that --log-level was given and is not used, if the emulator ran already.
  void tell_of_unused_level(bool started_here) const;

 private:
  control::Outcome<settings::Settings> read_line() const;
  control::Outcome<settings::Settings> read(const std::string& path) const;
};

// Prints "verbena: <text>" and returns `code`.
int complain(const std::string& text, int code = kFailed);

// Returns the events that `verbena event` can raise.
std::vector<std::string> event_words();

void add_run(CLI::App& app, Context& context);
void add_up(CLI::App& app, Context& context);
void add_down(CLI::App& app, Context& context);
void add_status(CLI::App& app, Context& context);
void add_env(CLI::App& app, Context& context);
void add_doctor(CLI::App& app, Context& context);
void add_port(CLI::App& app, Context& context);
void add_fault(CLI::App& app, Context& context);
void add_event(CLI::App& app, Context& context);
void add_events(CLI::App& app, Context& context);
void add_waits(CLI::App& app, Context& context);
void add_capture(CLI::App& app, Context& context);
void add_cdi(CLI::App& app, Context& context);
void add_completion(CLI::App& app, Context& context);

}  // namespace verbena::cli
