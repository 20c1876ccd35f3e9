// SPDX-License-Identifier: BSD-2-Clause
#include "children.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "command.hpp"
#include "verbena/link/clock.hpp"

namespace verbena::cli {
namespace {

constexpr int kHandedOn[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

bool asks_for_the_end(int signal) { return signal != SIGUSR1 && signal != SIGUSR2; }

int exit_code_in(const siginfo_t& ended) {
  return ended.si_code == CLD_EXITED ? ended.si_status : 128 + ended.si_status;
}

std::string why_not(const std::vector<std::string>& command, int code) {
  return "cannot run " + command[0] + ": " + std::strerror(code);
}

}  // namespace

Children::Children(Signals signals) : signals_(signals) {
  sigset_t ours;
  sigemptyset(&ours);
  sigaddset(&ours, SIGCHLD);
  for (const int signal : kHandedOn) sigaddset(&ours, signal);
  sigprocmask(SIG_BLOCK, &ours, &mask_before_);
  signal_fd_.reset(::signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK));
  // The reader of our output may go, and a caller that ignores SIGCHLD would hide exit codes from
  // us. The programs get both signals as they were.
  struct sigaction action {};
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, &pipe_before_);
  action.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &action, &child_before_);
}

control::Outcome<pid_t> Children::start(const std::vector<std::string>& command,
                                        const Stdio& stdio) {
  if (first_ == 0) become_parent();
  take_signals(first_ == 0);
  if (signals_ == Signals::kToAll && signal_to_end_) {
    return control::fail(ECANCELED, "a signal has asked for the end");
  }
  int told[2];
  if (::pipe2(told, O_CLOEXEC) != 0) {
    const int code = errno;
    return control::fail(code, "cannot start " + command[0] + ": " + std::strerror(code));
  }
  const control::UniqueFd hearing(told[0]);
  control::UniqueFd telling(told[1]);
  const pid_t pid = ::fork();
  if (pid < 0) {
    const int code = errno;
    return control::fail(code, "cannot start " + command[0] + ": " + std::strerror(code));
  }
  if (pid == 0) become(command, stdio, telling.get());
  telling.reset();
  hear_of_execution(command, hearing.get());
  started_[pid];
  are_left_ = true;
  if (first_ == 0) first_ = pid;
  for (const int signal : std::exchange(early_, {})) ::kill(pid, signal);
  return pid;
}

// Becomes the subreaper only with the first program: the emulator, which has no parent here, must
// not become our child. In a container, where we may be process 1, it becomes our child
// nevertheless.
void Children::become_parent() {
  for (const Process& process : descendants_of(::getpid(), {})) strangers_.insert(process.pid);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

// The pipe is closed when the program is executed.
void Children::hear_of_execution(const std::vector<std::string>& command, int fd) {
  int code = 0;
  ssize_t n = 0;
  do {
    n = ::read(fd, &code, sizeof code);
  } while (n < 0 && errno == EINTR);
  why_not_executed_ = n == sizeof code ? why_not(command, code) : "";
}

void Children::become(const std::vector<std::string>& command, const Stdio& stdio, int told) const {
  if (stdio.in >= 0) ::dup2(stdio.in, STDIN_FILENO);
  if (stdio.out >= 0) ::dup2(stdio.out, STDOUT_FILENO);
  if (stdio.err >= 0) ::dup2(stdio.err, STDERR_FILENO);
  sigaction(SIGPIPE, &pipe_before_, nullptr);
  sigaction(SIGCHLD, &child_before_, nullptr);
  sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
  ::_exit(execute(command, told));
}

void Children::wait(TimeNs until, std::span<pollfd> others) {
  std::vector<pollfd> waiting{{signal_fd_.get(), POLLIN, 0}};
  waiting.insert(waiting.end(), others.begin(), others.end());
  const TimeNs now = link::monotonic_now_ns();
  constexpr TimeNs kLongest = 3'600'000'000'000;
  const TimeNs left = until <= now ? 0 : std::min(until - now, kLongest);
  (void)::poll(waiting.data(), waiting.size(), static_cast<int>((left + 999'999) / 1'000'000));
  std::copy(waiting.begin() + 1, waiting.end(), others.begin());
  take_signals(false);
  reap();
}

void Children::take_signals(bool is_early) {
  signalfd_siginfo info{};
  while (::read(signal_fd_.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;
    if (!signal_to_end_ && asks_for_the_end(signal)) signal_to_end_ = signal;
    // The kernel tells of a terminal that was hung up only the leader of its session.
    const bool has_group_got_it = info.ssi_code == SI_KERNEL && signal != SIGHUP;
    if (is_early) {
      early_.push_back(signal);
    } else {
      hand_on(signal, has_group_got_it ? Except::kOurGroup : Except::kNobody);
    }
  }
}

// Once the first program has ended, the processes that it left behind get the signals.
void Children::hand_on(int signal, Except except) const {
  const bool is_for_first = signals_ == Signals::kToFirst && !exit_code_of(first_);
  if (!is_for_first) return signal_all(signal, except);
  if (except == Except::kOurGroup && ::getpgid(first_) == ::getpgrp()) return;
  ::kill(first_, signal);
}

void Children::reap() {
  for (;;) {
    siginfo_t ended{};
    if (::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG) != 0) {
      if (errno == EINTR) continue;
      are_left_ = false;
      return;
    }
    if (ended.si_pid == 0) break;
    const auto found = started_.find(ended.si_pid);
    if (found != started_.end()) found->second = exit_code_in(ended);
  }
  // Includes children that have ended meanwhile, because their exit codes have not been collected
  // yet.
  if (!strangers_.empty()) are_left_ = !descendants_of(::getpid(), strangers_).empty();
}

std::optional<int> Children::exit_code_of(pid_t pid) const {
  const auto found = started_.find(pid);
  return found == started_.end() ? std::nullopt : found->second;
}

std::vector<Process> Children::living() const {
  std::vector<Process> all = descendants_of(::getpid(), strangers_);
  std::erase_if(all, [](const Process& process) { return process.has_ended(); });
  return all;
}

// Looks again for processes that were started meanwhile. The number of looks is limited, because a
// process may start others without end.
void Children::signal_all(int signal, Except except) const {
  constexpr int kLooksMost = 10;
  std::set<std::pair<pid_t, std::uint64_t>> told;
  bool has_news = true;
  for (int look = 0; has_news && look < kLooksMost; ++look) {
    has_news = false;
    for (const Process& process : living()) {
      if (!told.emplace(process.pid, process.started).second) continue;
      if (except == Except::kOurGroup && ::getpgid(process.pid) == ::getpgrp()) continue;
      send_signal(process, signal);
      has_news = true;
    }
  }
}

int execute(const std::vector<std::string>& command, int told) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const int code = errno;
  const bool is_missing = code == ENOENT || code == ENOTDIR;
  if (told >= 0) (void)!::write(told, &code, sizeof code);
  return complain(why_not(command, code), is_missing ? kNotFound : kNotExecutable);
}

}  // namespace verbena::cli
