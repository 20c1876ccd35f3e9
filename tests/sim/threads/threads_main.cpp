// SPDX-License-Identifier: BSD-2-Clause
// sim_threads [--seeds N] [--seed FIRST] [--trace] [--without fences|kicks]: plays seeds one
// after the other, stops at the first that fails and prints how to repeat it. --trace shows what
// the applications do, and which messages waited for long. --without takes away something that the
// product's code relies on, and turns the outcome around: it is a failure if no seed fails.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "scenario.hpp"

namespace {

using verbena::threads::RunOptions;
using verbena::threads::RunReport;

struct Arguments {
  std::uint64_t seeds = 1, first = 1;
  const char* without = nullptr;
  RunOptions options;
};

bool parse(int argc, char** argv, Arguments& a) {
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--seeds") == 0 && has_value) {
      a.seeds = std::strtoull(argv[++i], nullptr, 0);
    } else if (std::strcmp(argv[i], "--seed") == 0 && has_value) {
      a.first = std::strtoull(argv[++i], nullptr, 0);
    } else if (std::strcmp(argv[i], "--trace") == 0) {
      a.options.trace = true;
    } else if (std::strcmp(argv[i], "--without") == 0 && has_value) {
      a.without = argv[++i];
    } else {
      return false;
    }
  }
  if (a.without == nullptr) return true;
  a.options.has_fences = std::strcmp(a.without, "fences") != 0;
  a.options.has_kicks = std::strcmp(a.without, "kicks") != 0;
  return !a.options.has_fences || !a.options.has_kicks;
}

// Leaves the failed run's threads and memory as they are.
[[noreturn]] void leave(int code) {
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  if (!parse(argc, argv, a)) {
    std::fprintf(stderr,
                 "usage: %s [--seeds N] [--seed FIRST] [--trace] [--without fences|kicks]\n",
                 argv[0]);
    return 2;
  }
  RunReport sum;
  std::uint64_t worst = 0;
  for (std::uint64_t seed = a.first; seed < a.first + a.seeds; ++seed) {
    const RunReport report = verbena::threads::run_seed(seed, a.options);
    sum.messages += report.messages;
    sum.steps += report.steps;
    sum.wake_ups += report.wake_ups;
    sum.worst_attended = std::max(sum.worst_attended, report.worst_attended);
    if (report.worst_unattended > sum.worst_unattended) {
      sum.worst_unattended = report.worst_unattended;
      worst = seed;
    }
    if (report.failure.empty()) continue;
    std::fprintf(stderr, "seed %llu: %s\n  (%s)\nrepeat with: %s --seed %llu%s%s --trace\n",
                 static_cast<unsigned long long>(seed), report.failure.c_str(),
                 report.description.c_str(), argv[0], static_cast<unsigned long long>(seed),
                 a.without != nullptr ? " --without " : "", a.without != nullptr ? a.without : "");
    leave(a.without != nullptr ? 0 : 1);
  }
  std::printf(
      "%llu seeds: %llu messages, %llu wake-ups, %llu steps; the longest waits: %.1f%% of what is "
      "allowed before a thread that waited, %.1f%% of what is allowed at all (seed %llu)\n",
      static_cast<unsigned long long>(a.seeds), static_cast<unsigned long long>(sum.messages),
      static_cast<unsigned long long>(sum.wake_ups), static_cast<unsigned long long>(sum.steps),
      static_cast<double>(sum.worst_attended) / 10, static_cast<double>(sum.worst_unattended) / 10,
      static_cast<unsigned long long>(worst));
  if (a.without == nullptr) return 0;
  std::fprintf(stderr, "without %s no seed has failed: the judge does not notice\n", a.without);
  return 1;
}
