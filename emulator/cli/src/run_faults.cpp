// SPDX-License-Identifier: BSD-2-Clause
#include "run_faults.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "command.hpp"
#include "status_parts.hpp"
#include "verbena/fault/rule.hpp"
#include "verbena/link/seed.hpp"

namespace verbena::cli {

using control::ChangeFault;
using control::Outcome;

namespace {

// A seed that is chosen here has 32 bits, as the emulator's: it is easy to write down, and it fits
// into a TOML file.
constexpr int kUnusedSeedBits = 32;

std::string fired_text(std::uint64_t times) {
  if (times == 0) return "never fired";
  return times == 1 ? "fired once" : "fired " + std::to_string(times) + " times";
}

// Fails if a rule could act only after the end of the run.
Outcome<control::Done> fits(const std::vector<std::string>& rules, const RunOptions& options) {
  for (const std::string& line : rules) {
    const auto rule = fault::parse_rule(line);
    if (options.time_limit_ns && rule && rule->after >= *options.time_limit_ns) {
      return control::fail(EINVAL, "the rule '" + line +
                                       "' can never fire: --timeout ends the run "
                                       "before");
    }
  }
  return control::Done{};
}

// Returns true if a rule ends the emulator, and with it all that it has counted.
bool kills_the_emulator(const std::string& line) {
  const auto rule = fault::parse_rule(line);
  return rule && rule->action == fault::Action::kKill && rule->program == fault::kEmulatorName;
}

}  // namespace

Outcome<RunFaults> RunFaults::from(const RunOptions& options) {
  auto change = options.faults.change();
  if (!change) return Failure<control::Error>{change.error()};
  if (const auto fit = fits(change->rules, options); !fit) {
    return Failure<control::Error>{fit.error()};
  }
  RunFaults faults(std::move(*change), options.quiet, options.requires_fired);
  if ((faults.change_.named & control::kFaultSeed) == 0) {
    faults.change_.seed = link::random_seed() >> kUnusedSeedBits;
    faults.change_.named |= control::kFaultSeed;
    faults.is_seed_chosen_here_ = true;
  }
  return faults;
}

Outcome<control::Done> RunFaults::begin(RunScene& scene) {
  const auto changed = scene.emulator.channel.call<control::FaultChanged>(change_);
  if (!changed) return Failure<control::Error>{changed.error()};
  return control::Done{};
}

// Tells of the rules in the order in which they were named.
int RunFaults::end(RunScene& scene, int exit_code) {
  if (change_.rules.empty()) return exit_code;
  const std::string silence = scene.silence.look();
  const auto rules = silence.empty() ? read_rules(scene.emulator)
                                     : Outcome<std::vector<RuleCount>>(control::fail(EIO, silence));
  if (!rules && std::ranges::any_of(change_.rules, kills_the_emulator)) {
    const std::string killed = "the emulator was killed, as a rule asked";
    if (change_.rules.size() > 1) {
      return end_unknown(scene, killed + "; nobody can say which others fired", exit_code);
    }
    complain(killed);
    return exit_code;
  }
  if (!rules) {
    return end_unknown(scene, "nobody can say which rules fired: " + rules.error().text, exit_code);
  }
  for (const RuleCount& rule : *rules) {
    const std::string text = "the rule '" + rule.rule + "' " + fired_text(rule.fired) + ", of " +
                             std::to_string(rule.matched) + " that it names";
    if (rule.fired == 0) scene.notes.never_fired->push_back(rule.rule);
    if (rule.fired == 0 && requires_fired_) {
      exit_code = fail(text, exit_code);
    } else if (!is_quiet_) {
      complain(text);
    }
  }
  return exit_code;
}

int RunFaults::end_unknown(RunScene& scene, const std::string& text, int exit_code) const {
  scene.notes.never_fired.reset();
  if (requires_fired_) return fail(text, exit_code);
  complain(text);
  return exit_code;
}

int RunFaults::fail(const std::string& text, int exit_code) const {
  complain(text);
  if (explanations_ != nullptr) std::fprintf(explanations_, "verbena: %s\n", text.c_str());
  return exit_code == 0 ? kNeverFired : exit_code;
}

}  // namespace verbena::cli
