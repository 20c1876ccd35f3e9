// SPDX-License-Identifier: BSD-2-Clause
#include "artifacts.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "command.hpp"
#include "own_command.hpp"
#include "verbena/control/journal_messages.hpp"
#include "verbena/control/signal_name.hpp"
#include "verbena/link/clock.hpp"

namespace verbena::cli {
namespace {

namespace fs = std::filesystem;
using control::Done;
using control::fail;
using control::Outcome;

// Returns signal N of an exit code 128 + N; null for another exit code.
nlohmann::json signal_in(int exit_code) {
  const std::string_view name = control::signal_name(exit_code - 128);
  return name.empty() ? nlohmann::json() : nlohmann::json(name);
}

// Says why the file cannot be written, as errno tells.
void complain_of(const std::string& path) {
  complain("cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace

Artifacts::Artifacts(const RunOptions& options)
    : options_(options), begun_(link::monotonic_now_ns()) {
  if (options.capture.empty()) {
    capture_.emplace(options.artifacts + "/capture.pcapng", kLongestCapture);
  }
}

Outcome<std::unique_ptr<Artifacts>> Artifacts::make(const RunOptions& options) {
  const std::string& dir = options.artifacts;
  std::error_code error;
  fs::create_directories(dir, error);
  control::UniqueFd lock(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A file system that knows no locks keeps nobody out.
  if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return fail(EBUSY, "--artifacts " + dir +
                           ": another run that has not ended keeps its files there; name another "
                           "directory");
  }
  if (!error) {
    for (const char* name : {"run.json", "status.json", "status-at-timeout.json", "events.jsonl",
                             "explain.log", "capture.pcapng"}) {
      fs::remove(fs::path(dir) / name, error);
    }
  }
  std::unique_ptr<Artifacts> artifacts(new Artifacts(options));
  artifacts->lock_ = std::move(lock);
  if (!error) artifacts->explanations_.reset(std::fopen((dir + "/explain.log").c_str(), "we"));
  if (artifacts->explanations_ == nullptr) {
    const int code = error ? error.value() : errno;
    return fail(code, "--artifacts " + dir + ": " + std::strerror(code));
  }
  return artifacts;
}

Outcome<Done> Artifacts::begin(RunScene& scene) {
  begun_ = link::monotonic_now_ns();
  const auto before = scene.emulator.channel.call<control::JournalText>(
      control::JournalQuery{control::JournalQuery::kNothing, false});
  if (before) last_before_ = before->newest;
  if (!capture_) return Done{};
  // The file is as readable as the others, because another user may upload them, as outside of a
  // container.
  const std::string packets = options_.artifacts + "/capture.pcapng";
  const control::UniqueFd made(::open(packets.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  auto begun = capture_->begin(scene);
  if (begun) return begun;
  // An emulator has one capture at a time. If another one runs, this run goes on without its
  // packets.
  complain("no packets are kept: " + begun.error().text);
  std::error_code ignored;
  fs::remove(packets, ignored);
  capture_.reset();
  return Done{};
}

void Artifacts::time_is_up(RunScene& scene) {
  write_output(scene, "status-at-timeout.json", {"status", "--json"});
}

int Artifacts::end(RunScene& scene, int exit_code) {
  if (const std::string silence = scene.silence.look(); !silence.empty()) {
    complain("neither status nor events are kept: " + silence);
  }
  write_output(scene, "status.json", {"status", "--json"});
  write_output(scene, "events.jsonl",
               {"events", "--json", "--after", std::to_string(last_before_)});
  if (capture_) capture_->end(scene, exit_code);
  return exit_code;
}

void Artifacts::conclude(const RunNotes& notes, int exit_code) {
  if (!notes.error.empty()) {
    std::fprintf(explanations_.get(), "verbena: %s\n", notes.error.c_str());
  }
  if (std::fflush(explanations_.get()) != 0 || std::ferror(explanations_.get()) != 0) {
    complain(options_.artifacts + "/explain.log is not whole: it could not be written");
  }
  write_run(notes, exit_code);
}

// Writes what one of our own commands prints. If the emulator does not answer, writes the failure
// that the command would print, without running it.
void Artifacts::write_output(RunScene& scene, const char* name,
                             std::vector<std::string> words) const {
  const std::string path = options_.artifacts + "/" + name;
  if (const std::string silence = scene.silence.look(); !silence.empty()) {
    const nlohmann::ordered_json failure{
        {"command", words[0]}, {"error", silence}, {"exit_code", kFailed}};
    std::ofstream(path) << failure.dump() << "\n";
    return;
  }
  const control::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!file) return complain_of(path);
  const pid_t pid = start_own_command({std::move(words), scene.dir, file.get(), -1, {}});
  int status = 0;
  while (pid > 0 && ::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (pid < 0) return complain_of(path);
  // The command has said why, unless it was killed.
  if (status != 0) complain(path + " is not whole");
}

void Artifacts::write_run(const RunNotes& notes, int exit_code) const {
  const double seconds = static_cast<double>(link::monotonic_now_ns() - begun_) / 1e9;
  nlohmann::ordered_json run;
  run["command"] = options_.words;
  run["exit_code"] = exit_code;
  run["signal"] = signal_in(exit_code);
  run["timed_out"] = notes.is_timed_out;
  run["error"] =
      notes.error.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(notes.error);
  run["never_fired"] =
      notes.never_fired ? nlohmann::ordered_json(*notes.never_fired) : nlohmann::ordered_json();
  run["seed"] = options_.seed ? nlohmann::ordered_json(*options_.seed) : nlohmann::ordered_json();
  run["duration_seconds"] = seconds;
  run["version"] = VERBENA_VERSION;
  run["repeat"] = options_.command_that_repeats();
  const std::string path = options_.artifacts + "/run.json";
  errno = 0;
  std::ofstream file(path);
  file << run.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n" << std::flush;
  if (!file) complain_of(path);
}

}  // namespace verbena::cli
