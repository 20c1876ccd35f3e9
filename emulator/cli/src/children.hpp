// SPDX-License-Identifier: BSD-2-Clause
// The programs that `verbena run` has started as their parent, and all that these start. It is
// their subreaper, so that it loses none of them, however they were started. They stay in its
// process group, and with it in the foreground of the terminal.
//
// Signals that users send to `verbena run` are meant for the programs. They are held back from the
// construction on and handed on in wait(); those that come early reach the first program when it
// starts. Signals of the terminal (Ctrl-C) reach the whole group by themselves and are handed on
// only to those that have left it.
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
  // The programs that get the signals that are sent to us.
  enum class Signals : std::uint8_t { kToFirst, kToAll };
  // Descriptors for a program's standard streams in place of our own; -1: ours.
  struct Stdio {
    int in = -1;
    int out = -1;
    int err = -1;
  };

  explicit Children(Signals signals);
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  // Starts a program. A program that cannot be executed says so itself, and ends with 126 or 127;
  // why_not_executed() then says the same.
  // Children that existed before the first program are neither ended nor waited for. If signals
  // are for all programs, none is started any more once a signal has asked for the end (ECANCELED).
  control::Outcome<pid_t> start(const std::vector<std::string>& command, const Stdio& stdio);

  // Returns why the program that was started last cannot be executed; empty: it can.
  const std::string& why_not_executed() const { return why_not_executed_; }

  // Waits until a child has ended, a signal has come, something has happened to one of `others`, or
  // the time has come. May return earlier.
  void wait(TimeNs until, std::span<pollfd> others = {});

  // Returns the first signal that has asked for the end: SIGTERM, SIGINT, SIGHUP or SIGQUIT.
  std::optional<int> signal_to_end() const { return signal_to_end_; }

  // Returns the exit code of a child that start() returned (128 + N for a signal N). Returns
  // nothing while it still runs.
  std::optional<int> exit_code_of(pid_t pid) const;
  // Returns true if a program lives, or a process that one has started.
  bool are_left() const { return are_left_; }
  std::vector<Process> living() const;
  enum class Except : std::uint8_t { kNobody, kOurGroup };
  void signal_all(int signal, Except except = Except::kNobody) const;

 private:
  void become_parent();
  void reap();
  void hand_on(int signal, Except except) const;
  // Reads the signals that wait for us. With `is_early` it also keeps those of the terminal.
  void take_signals(bool is_early);
  [[noreturn]] void become(const std::vector<std::string>& command, const Stdio& stdio,
                           int told) const;
  void hear_of_execution(const std::vector<std::string>& command, int fd);

  const Signals signals_;
  sigset_t mask_before_;
  struct sigaction pipe_before_;
  struct sigaction child_before_;
  control::UniqueFd signal_fd_;
  std::string why_not_executed_;
  std::vector<int> early_;
  std::optional<int> signal_to_end_;
  pid_t first_ = 0;
  std::map<pid_t, std::optional<int>> started_;
  // Processes that existed before the programs: those that were left to us, as a shell leaves one
  // with `> >(tee log)`, and commands of our own.
  std::set<pid_t> strangers_;
  bool are_left_ = false;
};

// Replaces this process by the command. Returns the exit code that says why it could not, and
// writes errno to `told`, if that is no negative number.
int execute(const std::vector<std::string>& command, int told = -1);

}  // namespace verbena::cli
