// SPDX-License-Identifier: BSD-2-Clause
// sim [--seeds N] [--seed FIRST] [--hard] [--trace]: plays seeds one after the other, stops at the
// first that fails and prints how to repeat it. --hard: each run drops, repeats and reorders 15%.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "scenario.hpp"

int main(int argc, char** argv) {
  std::uint64_t seeds = 1, first = 1;
  verbena::sim::RunOptions options;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--seeds") == 0 && i + 1 < argc) {
      seeds = std::strtoull(argv[++i], nullptr, 0);
    } else if (std::strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      first = std::strtoull(argv[++i], nullptr, 0);
    } else if (std::strcmp(argv[i], "--trace") == 0) {
      options.trace = true;
    } else if (std::strcmp(argv[i], "--hard") == 0) {
      options.hard = true;
    } else {
      std::fprintf(stderr, "usage: %s [--seeds N] [--seed FIRST] [--hard] [--trace]\n", argv[0]);
      return 2;
    }
  }
  std::uint64_t packets = 0, lost = 0, operations = 0;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    const verbena::sim::RunReport report = verbena::sim::run_seed(seed, options);
    packets += report.packets;
    lost += report.lost;
    operations += report.operations;
    if (!report.ok) {
      std::fprintf(stderr, "seed %llu: %s\n  (%s)\nrepeat with: %s --seed %llu%s --trace\n",
                   static_cast<unsigned long long>(seed), report.failure.c_str(),
                   report.description.c_str(), argv[0], static_cast<unsigned long long>(seed),
                   options.hard ? " --hard" : "");
      return 1;
    }
  }
  std::printf("%llu seeds: %llu operations, %llu packets, %llu of them lost\n",
              static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(operations),
              static_cast<unsigned long long>(packets), static_cast<unsigned long long>(lost));
  return 0;
}
