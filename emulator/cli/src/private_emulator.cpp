// SPDX-License-Identifier: BSD-2-Clause
#include "private_emulator.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "verbena/control/runtime_dir.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/fabric/runtime_files.hpp"

namespace verbena::cli {
namespace {

using control::Done;
using control::Error;
using control::fail;
using control::Outcome;

constexpr std::string_view kPrefix = "private-";
constexpr std::size_t kLongestName = 32;

// Where all emulators of this user are, whichever of them we are in.
std::string common_dir() {
  const std::string dir = control::runtime_dir_path();
  const std::size_t slash = dir.find_last_of('/');
  const bool is_private = std::string_view(dir).substr(slash + 1).starts_with(kPrefix);
  return is_private ? dir.substr(0, slash) : dir;
}

std::string dir_of(const std::string& name) {
  return common_dir() + "/" + std::string(kPrefix) + name;
}

Failure<Error> cannot_make(const std::string& dir) {
  const int code = errno;
  return fail(code, "cannot make the directory " + dir + ": " + std::strerror(code) +
                        "; set VERBENA_RUNTIME_DIR to a directory that you may write");
}

Outcome<std::string> make_unnamed_dir() {
  std::string dir = dir_of("run-XXXXXX");
  if (::mkdtemp(dir.data()) == nullptr) return cannot_make(dir);
  return dir;
}

Failure<Error> name_is_taken(const std::string& name) {
  const auto other = reach_emulator(dir_of(name));
  const std::string pid =
      other ? " (pid " + std::to_string(other->welcome.daemon_pid) + ")" : std::string();
  return fail(EEXIST, "a private emulator " + name + " is running already" + pid +
                          "; choose another name, or end it first: verbena down --private " + name);
}

// What an emulator that was killed has left may be in it.
Outcome<std::string> make_named_dir(const std::string& name) {
  const std::string dir = dir_of(name);
  if (::mkdir(dir.c_str(), 0700) == 0) return dir;
  if (errno != EEXIST) return cannot_make(dir);
  const auto other = reach_emulator(dir);
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
  command.add_option("--private", name, "The private emulator of this name")
      ->type_name("NAME")
      ->check([](const std::string& text) { return wrong_private_name(text); });
}

std::string PrivateOption::runtime_dir() const {
  return name.empty() ? control::runtime_dir_path() : dir_of(name);
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
  const auto common = control::make_runtime_dir(common_dir());
  if (!common) return Failure<Error>{common.error()};
  const auto dir = name.empty() ? make_unnamed_dir() : make_named_dir(name);
  if (!dir) return Failure<Error>{dir.error()};
  // Once more if it has ended before we came: it does when nobody comes for a while.
  constexpr int kAttempts = 10;
  for (int attempt = 1;; ++attempt) {
    const auto begun = start_daemon(*dir, parts, settings, {ends_when_idle, true});
    if (!begun) {
      fabric::remove_runtime_files(*dir);
      return Failure<Error>{begun.error()};
    }
    if (*begun == DaemonStart::kRunsAlready) return name_is_taken(name);
    auto emulator = reach_emulator(*dir);
    if (emulator) {
      emulator->started_here = true;
      return PrivateEmulator{*dir, std::move(*emulator)};
    }
    if (attempt == kAttempts) return Failure<Error>{emulator.error()};
  }
}

Outcome<Done> end_private_emulator(PrivateEmulator& own) {
  const auto ended = end_emulator(own.emulator);
  if (!ended) return ended;
  // Somebody may have begun another one of this name by now.
  const control::UniqueFd lock(
      ::open(control::daemon_lock_path(own.dir).c_str(), O_RDWR | O_CLOEXEC));
  if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) fabric::remove_runtime_files(own.dir);
  return Done{};
}

}  // namespace verbena::cli
