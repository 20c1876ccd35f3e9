// SPDX-License-Identifier: BSD-2-Clause
// The programs that `verbena run` has started as their parent, and all that these start: it is
// their subreaper, so that none of them is lost from sight, however it was started. They stay in
// our process group, and with it in the foreground of the terminal.
//
// Signals that people send to us are meant for them. They are held back from the construction on,
// and handed on in wait(); those that come early reach the first program when it starts. What the
// terminal sends (Ctrl-C) reaches the whole group by itself and is not handed on.
//
// One object in a process without threads.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <csignal>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "process_tree.hpp"
#include "verbena/base/types.hpp"
#include "verbena/control/error.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::cli {

class Children {
 public:
  // Who gets the signals that are sent to us.
  enum class Signals : std::uint8_t { kToFirst, kToAll };
  // In place of our own; -1: ours.
  struct Stdio {
    int in = -1;
    int out = -1;
    int err = -1;
  };

  explicit Children(Signals signals);
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  // A program that cannot be executed says so itself, and ends with 126 or 127. Children that we
  // have before the first one are neither ended nor waited for.
  control::Outcome<pid_t> start(const std::vector<std::string>& command, const Stdio& stdio);

  // Until one has ended, a signal has come, something has happened to one of `others`, or it is
  // time. May return for less.
  void wait(TimeNs until, std::span<pollfd> others = {});

  // Of one that start() returned: 128 + N for a signal; nothing while it runs.
  std::optional<int> exit_code_of(pid_t pid) const;
  // Whether any of them lives, or of what they started.
  bool are_left() const { return are_left_; }
  std::vector<Process> living() const;
  void signal_all(int signal) const;

 private:
  void become_parent();
  void reap();
  void hand_on(int signal) const;
  // Signals that wait for us. `is_early`: also those of the terminal.
  void take_signals(bool is_early);
  [[noreturn]] void become(const std::vector<std::string>& command, const Stdio& stdio) const;

  const Signals signals_;
  sigset_t mask_before_;
  struct sigaction pipe_before_;
  struct sigaction child_before_;
  control::UniqueFd signal_fd_;
  std::vector<int> early_;
  pid_t first_ = 0;
  std::map<pid_t, std::optional<int>> started_;
  // What was there before the programs: what whoever became us has left to us, as a shell does with
  // `> >(tee log)`, and commands of our own.
  std::set<pid_t> strangers_;
  bool are_left_ = false;
};

// Replaces this process by the command. Returns the exit code that says why it could not.
int execute(const std::vector<std::string>& command);

}  // namespace verbena::cli
