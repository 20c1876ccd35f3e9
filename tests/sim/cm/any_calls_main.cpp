// SPDX-License-Identifier: BSD-2-Clause
// sim_cm_calls [--seeds N] [--seed FIRST]: plays seeds one after the other, stops at the first that
// fails and prints how to repeat it, even if the seed ends the process.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "any_calls.hpp"

namespace {

std::uint64_t seed_now = 0;
const verbena::cm::sim::AnyCalls* run_now = nullptr;

void on_death(int number) {
  char text[256];
  const int size = std::snprintf(text, sizeof text, "seed %llu: %s ends the emulator\n",
                                 static_cast<unsigned long long>(seed_now),
                                 run_now != nullptr ? run_now->last_call().c_str() : "it");
  (void)!::write(STDERR_FILENO, text, static_cast<std::size_t>(size));
  std::signal(number, SIG_DFL);
  std::raise(number);
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t seeds = 1, first = 1;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--seeds") == 0 && i + 1 < argc) {
      seeds = std::strtoull(argv[++i], nullptr, 0);
    } else if (std::strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      first = std::strtoull(argv[++i], nullptr, 0);
    } else {
      std::fprintf(stderr, "usage: %s [--seeds N] [--seed FIRST]\n", argv[0]);
      return 2;
    }
  }
  for (const int number : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS}) std::signal(number, on_death);
  std::uint64_t succeeded = 0;
  for (seed_now = first; seed_now < first + seeds; ++seed_now) {
    verbena::cm::sim::AnyCalls run(seed_now);
    run_now = &run;
    if (const std::string failure = run.play(); !failure.empty()) {
      std::fprintf(stderr, "seed %llu: %s\nrepeat with: %s --seed %llu\n",
                   static_cast<unsigned long long>(seed_now), failure.c_str(), argv[0],
                   static_cast<unsigned long long>(seed_now));
      return 1;
    }
    succeeded += run.succeeded();
    run_now = nullptr;
  }
  std::printf("%llu seeds, %llu steps; %llu calls succeeded\n",
              static_cast<unsigned long long>(seeds),
              static_cast<unsigned long long>(seeds * verbena::cm::sim::AnyCalls::kSteps),
              static_cast<unsigned long long>(succeeded));
  return 0;
}
