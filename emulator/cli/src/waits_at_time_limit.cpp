// SPDX-License-Identifier: BSD-2-Clause
#include "waits_at_time_limit.hpp"

#include <cstdint>
#include <set>

#include "command.hpp"
#include "status_parts.hpp"
#include "text.hpp"

namespace verbena::cli {
namespace {

std::string names_of(const std::vector<Process>& programs) {
  std::string names;
  for (const Process& program : programs) {
    names += (names.empty() ? "" : ", ") + program.name + "[" + std::to_string(program.pid) + "]";
  }
  return names;
}

// Finds the programs of the run among those that the emulator knows. An emulator outside of our
// container sees other process ids, so they are found by their names.
class Ours {
 public:
  Ours(const Emulator& emulator, const std::vector<Process>& programs)
      : is_by_name_(!shares_numbers(emulator)) {
    for (const Process& process : programs) {
      numbers_.insert(static_cast<std::uint32_t>(process.pid));
      names_.insert(process.name);
    }
  }
  bool has(const Wait& wait) const {
    return is_by_name_ ? names_.contains(wait.program) : numbers_.contains(wait.pid);
  }

 private:
  const bool is_by_name_;
  std::set<std::uint32_t> numbers_;
  std::set<std::string> names_;
};

}  // namespace

void WaitsAtTimeLimit::time_is_up(RunScene& scene) {
  const std::vector<Process> programs = scene.children.living();
  const std::string silence = scene.silence.look();
  if (silence.empty()) return look(scene, programs);
  said_.push_back(silence + ": nobody can say what the programs waited for");
  said_.push_back("the programs when the time was up: " + names_of(programs));
}

void WaitsAtTimeLimit::look(RunScene& scene, const std::vector<Process>& programs) {
  const auto waits = read_waits(scene.emulator);
  if (!waits) {
    said_.push_back("nobody can say what the programs waited for: " + waits.error().text);
    return;
  }
  const Ours ours(scene.emulator, programs);
  bool knows_programs = false;
  said_.emplace_back("what the programs waited for when the time was up:");
  for (const Wait& wait : *waits) {
    knows_programs = knows_programs || ours.has(wait);
    const bool is_told = wait.pid == 0 ? options_.is_private : ours.has(wait);
    if (is_told) said_.push_back(text_of(wait));
  }
  if (!knows_programs) said_ = {"none of its programs had a device open when the time was up"};
}

int WaitsAtTimeLimit::end(RunScene& scene, int exit_code) {
  if (!scene.notes.is_timed_out) return exit_code;
  for (std::size_t i = 0; i < said_.size(); ++i) {
    complain(said_[i]);
    // The first line, which introduces the others, is not an explanation.
    if (i != 0 && explanations_ != nullptr) {
      std::fprintf(explanations_, "verbena: %s\n", said_[i].c_str());
    }
  }
  return complain(
      "it took longer than " + duration_text(*options_.time_limit_ns) + " and was ended",
      kTimedOut);
}

}  // namespace verbena::cli
