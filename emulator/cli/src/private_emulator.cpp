// SPDX-License-Identifier: BSD-2-Clause
#include "private_emulator.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <utility>

#include "private_dirs.hpp"
#include "verbena/control/runtime_dir.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/fabric/runtime_files.hpp"

namespace verbena::cli {
namespace {

using control::Done;
using control::Error;
using control::fail;
using control::Outcome;

constexpr std::size_t kLongestName = 32;

Failure<Error> name_is_taken(const std::string& name) {
  const auto other = reach_emulator(private_dir_of(name));
  const std::string pid =
      other ? " (pid " + std::to_string(other->welcome.daemon_pid) + ")" : std::string();
  return fail(EEXIST, "a private emulator " + name + " is running already" + pid +
                          "; choose another name, or end it first: verbena down --private " + name);
}

// Makes a directory in which no emulator runs. It may hold what a killed emulator has left for
// others.
Outcome<PrivateDir> make_free_dir(const std::string& name) {
  auto dir = make_private_dir(name);
  if (!dir || !dir->was_there) return dir;
  const auto other = reach_emulator(dir->path);
  if (other) return name_is_taken(name);
  if (!is_absent(other.error()) && other.error().code != ECONNRESET) {
    return Failure<Error>{other.error()};
  }
  return dir;
}

}  // namespace

std::string wrong_private_name(const std::string& name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  if (!name.empty() && name.size() <= kLongestName && std::all_of(name.begin(), name.end(), fits)) {
    return {};
  }
  return "\"" + name + "\" is no name of a private emulator: take up to " +
         std::to_string(kLongestName) + " letters, digits, - and _";
}

void PrivateOption::add_to(CLI::App& command) {
  command.add_option("--private", name, "Use the private emulator of this name")
      ->type_name("NAME")
      ->check([](const std::string& text) { return wrong_private_name(text); });
}

std::string PrivateOption::runtime_dir() const {
  return name.empty() ? control::runtime_dir_path() : private_dir_of(name);
}

Outcome<Emulator> PrivateOption::reach() const {
  auto emulator = reach_emulator(runtime_dir());
  if (emulator || !is_absent(emulator.error())) return emulator;
  const std::string sentence =
      name.empty() ? "no emulator is running; start one with: verbena up"
                   : "no private emulator " + name +
                         " is running; start one with: verbena up --private " + name;
  return fail(emulator.error().code, sentence);
}

Outcome<PrivateEmulator> start_private_emulator(const std::string& name, const Parts& parts,
                                                const settings::Settings& settings,
                                                bool ends_when_idle) {
  const auto made = make_free_dir(name);
  if (!made) return Failure<Error>{made.error()};
  const std::string& dir = made->path;
  // Tries again if the emulator has ended before this process came: it ends when it has no client
  // for a while.
  constexpr int kAttempts = 10;
  for (int attempt = 1;; ++attempt) {
    const auto begun = start_daemon(dir, parts, settings, {ends_when_idle, true});
    if (!begun) {
      fabric::remove_runtime_files(dir);
      return Failure<Error>{begun.error()};
    }
    if (*begun == DaemonStart::kRunsAlready) return name_is_taken(name);
    auto emulator = reach_emulator(dir);
    if (emulator) {
      emulator->started_here = true;
      // Locks the directory anew, because an emulator that has ended has removed the one before.
      return PrivateEmulator{dir, std::move(*emulator), hold_private_dir(dir)};
    }
    if (attempt == kAttempts) return Failure<Error>{emulator.error()};
  }
}

Outcome<Done> end_private_emulator(PrivateEmulator& own, int patience_ms) {
  auto ended = end_emulator(own.emulator, patience_ms);
  if (!ended) return ended;
  // Another emulator of this name may have begun by now.
  const control::UniqueFd lock(
      ::open(control::daemon_lock_path(own.dir).c_str(), O_RDWR | O_CLOEXEC));
  if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) fabric::remove_runtime_files(own.dir);
  return Done{};
}

}  // namespace verbena::cli
