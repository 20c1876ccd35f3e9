// SPDX-License-Identifier: BSD-2-Clause
// What the raw measurements share: a child process at the far end, samples and their quantiles. All
// times come from one monotonic clock. A sample is a window of many round trips, because a clock
// reading would weigh as much as a short one.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "verbena/link/clock.hpp"

namespace verbena::bench {

struct Quantiles {
  double p25 = 0;
  double median = 0;
};

inline Quantiles quantiles(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  return {samples[samples.size() / 4], samples[samples.size() / 2]};
}

class Deadline {
 public:
  explicit Deadline(double seconds)
      : end_(link::monotonic_now_ns() + static_cast<TimeNs>(seconds * 1e9)) {}
  bool passed() const { return link::monotonic_now_ns() >= end_; }

 private:
  TimeNs end_;
};

[[noreturn]] inline void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

// Keeps the parent on one processor and its children on another, if there are two.
class Pinning {
 public:
  static void enable() {
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) < 0) fail("sched_getaffinity");
    int found = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; ++cpu) {
      if (CPU_ISSET(cpu, &allowed)) cpus_[found++] = cpu;
    }
    if (found == 2) pin(cpus_[0]);
  }
  static void enter_child() {
    if (cpus_[1] >= 0) pin(cpus_[1]);
  }

 private:
  static void pin(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (::sched_setaffinity(0, sizeof one, &one) < 0) fail("sched_setaffinity");
  }
  static inline int cpus_[2] = {-1, -1};
};

// Runs `body` in a child that ends with the parent at the latest.
class Child {
 public:
  template <typename Body>
  explicit Child(Body body) : pid_(::fork()) {
    if (pid_ < 0) fail("fork");
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      Pinning::enter_child();
      body();
      ::_exit(0);
    }
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

}  // namespace verbena::bench
