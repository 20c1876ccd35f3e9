// SPDX-License-Identifier: BSD-2-Clause
#include "supervised_run.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "artifacts.hpp"
#include "children.hpp"
#include "pair.hpp"
#include "private_emulator.hpp"
#include "program_check.hpp"
#include "run_capture.hpp"
#include "run_faults.hpp"
#include "run_part.hpp"
#include "shell_check.hpp"
#include "side_output.hpp"
#include "silent_emulator.hpp"
#include "time_limit.hpp"
#include "verbena/control/printable.hpp"
#include "verbena/control/runtime_dir.hpp"
#include "verbena/link/clock.hpp"
#include "waits_at_time_limit.hpp"

namespace verbena::cli {
namespace {

using control::Done;
using control::Error;
using control::Outcome;

constexpr TimeNs kSilentNs = 3'000'000'000;
// How long an emulator that has not answered before may take to end.
constexpr int kSilentPatienceMs = 1'000;

// Tells, once and after a while, what the program has left behind, so that the user knows why the
// run does not end.
class LeftBehind {
 public:
  void look(const Children& children, const std::string& program, TimeNs now) {
    if (since_ == 0) since_ = now;
    if (has_told_ || now - since_ < kSilentNs) return;
    has_told_ = true;
    std::string names;
    for (const Process& process : children.living()) {
      names += (names.empty() ? "" : ", ") + control::printable(process.name) + " (pid " +
               std::to_string(process.pid) + ")";
    }
    if (names.empty()) return;  // the last one is just ending
    complain(program + " has ended; waiting for what it started: " + names);
  }
  TimeNs next() const { return has_told_ || since_ == 0 ? kNever : since_ + kSilentNs; }

 private:
  TimeNs since_ = 0;
  bool has_told_ = false;
};

// With a file for explanations, the program's error output comes to this process first.
int run_program(RunScene& scene, TimeLimit& limit, const std::vector<std::string>& command,
                SideOutput& output, bool hears_errors) {
  Children& children = scene.children;
  const auto program =
      children.start(command, {.err = hears_errors ? output.add_plain_errors() : -1});
  output.forget_ends();
  scene.notes.error = program ? children.why_not_executed() : program.error().text;
  if (!program) return complain(program.error().text, kRunFailed);
  LeftBehind left;
  while (children.are_left() && !limit.has_given_up()) {
    std::vector<pollfd> waiting = output.waiting();
    children.wait(std::min(limit.next(), left.next()), waiting);
    output.step(waiting);
    limit.look();
    if (children.exit_code_of(*program)) {
      left.look(children, command[0], link::monotonic_now_ns());
    }
  }
  output.finish();
  return children.exit_code_of(*program).value_or(0);
}

// What the run does beside its programs, in the order of its beginning.
struct RunWork {
  std::vector<std::unique_ptr<RunPart>> parts;
  Artifacts* kept = nullptr;  // one of the parts, if it was asked for

  std::FILE* explanations() const { return kept != nullptr ? kept->explanations() : nullptr; }
  Outcome<Done> begin(RunScene& scene) {
    for (const auto& part : parts) {
      auto begun = part->begin(scene);
      if (!begun) return begun;
    }
    return Done{};
  }
  int end(RunScene& scene, int code) {
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) code = (*part)->end(scene, code);
    return code;
  }
  // Says what the run itself has failed at, and notes the first such failure.
  void fail(RunNotes& notes, const std::string& text) const {
    complain(text);
    if (notes.error.empty()) notes.error = text;
  }
  // Must be called last. Returns the exit code.
  int conclude(const RunNotes& notes, int code) const {
    if (kept != nullptr) kept->conclude(notes, code);
    return code;
  }
};

int run_programs(const RunOptions& options, RunScene& scene, RunWork& work) {
  TimeLimit limit(scene.children, options.time_limit_ns, [&] {
    for (const auto& part : work.parts) part->time_is_up(scene);
  });
  SideOutput output(work.explanations());
  const int code = options.pair.empty()
                       ? run_program(scene, limit, options.command, output, work.kept != nullptr)
                       : Pair(scene.children, limit, scene.emulator, output)
                             .run(options.pair[0], options.pair[1]);
  if (limit.has_given_up()) {
    complain("what is left cannot be ended: it belongs to another user");
  }
  scene.notes.is_timed_out = limit.is_exceeded();
  return code;
}

// The emulator of the run, until its end.
class RunEmulator {
 public:
  static Outcome<RunEmulator> open(const RunOptions& options, const Parts& parts,
                                   const settings::Settings& settings) {
    if (options.is_private) {
      auto own = start_private_emulator(options.name, parts, settings, true);
      if (!own) return Failure<Error>{own.error()};
      return RunEmulator(std::move(*own), true);
    }
    const std::string dir = control::runtime_dir_path();
    auto shared = ensure_emulator(dir, parts, settings, true);
    if (!shared) return Failure<Error>{shared.error()};
    options.devices.tell_of_unused_level(shared->started_here);
    return RunEmulator({dir, std::move(*shared), {}}, false);
  }
  Emulator& emulator() { return reached_.emulator; }
  const std::string& dir() const { return reached_.dir; }
  // Continues a private emulator that was stopped, because it has to end.
  void let_go_on() {
    if (is_private_) cli::let_go_on(reached_.emulator);
  }
  // Ends a private emulator. The connection has kept the emulator until now.
  Outcome<Done> end(bool is_silent = false) {
    if (!is_private_) return Done{};
    return end_private_emulator(reached_,
                                is_silent ? kSilentPatienceMs : control::kDefaultTimeoutMs);
  }

 private:
  RunEmulator(PrivateEmulator reached, bool is_private)
      : reached_(std::move(reached)), is_private_(is_private) {}

  PrivateEmulator reached_;
  bool is_private_;
};

// Makes the parts of the run, and notes the seed in the options. Looks at the rules first: a
// command line that is wrong leaves the files of the run before as they are.
Outcome<RunWork> work_of(RunOptions& options) {
  RunWork work;
  std::unique_ptr<RunFaults> given;
  if (options.faults.is_given()) {
    auto faults = RunFaults::from(options);
    if (!faults) return Failure<Error>{faults.error()};
    options.seed = faults->seed();
    options.is_seed_chosen_here = faults->is_seed_chosen_here();
    given = std::make_unique<RunFaults>(std::move(*faults));
  }
  if (!options.artifacts.empty()) {
    auto artifacts = Artifacts::make(options);
    if (!artifacts) return Failure<Error>{artifacts.error()};
    work.kept = artifacts->get();
    work.parts.push_back(std::move(*artifacts));
  }
  if (!options.capture.empty()) {
    work.parts.push_back(std::make_unique<RunCapture>(options.capture, std::nullopt));
  }
  if (given) {
    given->explain_in(work.explanations());
    work.parts.push_back(std::move(given));
  }
  // This part comes last, so that it looks last and speaks first.
  if (options.time_limit_ns) {
    work.parts.push_back(std::make_unique<WaitsAtTimeLimit>(options, work.explanations()));
  }
  return work;
}

// Takes our library, which device_environment() has put first, out of LD_PRELOAD again.
void leave_out_preload() {
  const char* const list = std::getenv("LD_PRELOAD");
  const char* const rest = list != nullptr ? std::strchr(list, ':') : nullptr;
  if (rest == nullptr) {
    ::unsetenv("LD_PRELOAD");
  } else {
    ::setenv("LD_PRELOAD", std::string(rest + 1).c_str(), 1);
  }
}

}  // namespace

void set_program_environment(const RunOptions& options, const settings::Settings& settings) {
  if (!options.failures.empty()) {
    const char* const inherited = std::getenv("VERBENA_FAIL");
    const std::string list = options.failure_list_with(inherited != nullptr ? inherited : "");
    ::setenv("VERBENA_FAIL", list.c_str(), 1);
  }
  if (!options.command.empty() && why_no_preload(options.command[0])) leave_out_preload();
  if (options.quiet) ::unsetenv("VERBENA_LOG");
  if (options.quiet || !settings.explain.value_or(true)) return;
  ::setenv("VERBENA_LOG", "explain", 0);
  if (const auto reason = why_no_explanations()) complain(*reason);
  if (options.command.empty()) return;
  if (const auto reason = why_no_device(options.command[0])) complain(*reason);
}

int supervised_run(RunOptions options, const Parts& parts, const settings::Settings& settings) {
  // What is wrong with the command line is told before anything is started.
  auto work = work_of(options);
  if (!work) return complain(work.error().text, kRunFailed);
  Children children(options.pair.empty() ? Children::Signals::kToFirst : Children::Signals::kToAll);
  auto own = RunEmulator::open(options, parts, settings);
  RunNotes notes;
  if (!own) {
    work->fail(notes, own.error().text);
    return work->conclude(notes, kRunFailed);
  }
  Silence silence(own->emulator());
  RunScene scene{own->emulator(), own->dir(), children, silence, notes};
  const auto environment = device_environment(parts, own->dir());
  const auto begun =
      environment ? work->begin(scene) : Outcome<Done>(Failure<Error>{environment.error()});
  if (!begun) {
    work->fail(notes, begun.error().text);
    if (const auto ended = own->end(); !ended) work->fail(notes, ended.error().text);
    return work->conclude(notes, kRunFailed);
  }
  for (const auto& [name, value] : *environment) ::setenv(name.c_str(), value.c_str(), 1);
  set_program_environment(options, settings);

  int code = run_programs(options, scene, *work);
  own->let_go_on();
  code = work->end(scene, code);
  if (const auto ended = own->end(!silence.look().empty()); !ended) {
    work->fail(notes, ended.error().text);
    if (code == 0) code = kRunFailed;
  }
  work->conclude(notes, code);
  if (code != 0 && (options.is_seed_chosen_here || !options.artifacts.empty())) {
    complain("the same again: " + options.command_that_repeats());
  }
  return code;
}

}  // namespace verbena::cli
