// SPDX-License-Identifier: BSD-2-Clause
// verbena-raw: what UDP, shared memory and memory copies give on this machine, as JSON. Run it in
// the same minutes as the benchmark to compare, because on a busy machine only ratios count.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "raw.hpp"

namespace {

using namespace verbena::bench;

// The wanted figures, as NAME or NAME:SIZE; all if none is named.
class Choice {
 public:
  void add(const char* word) { wanted_.emplace_back(word); }
  bool has(const char* name, std::size_t size) const {
    const std::string full = std::string(name) + ":" + std::to_string(size);
    return wanted_.empty() ||
           std::any_of(wanted_.begin(), wanted_.end(),
                       [&](const std::string& w) { return w == name || w == full; });
  }

 private:
  std::vector<std::string> wanted_;
};

// Writes `"name": {"size": value, ...}`, each value by `measure(size)`.
class Report {
 public:
  explicit Report(const Choice& choice) : choice_(choice) { std::printf("{"); }
  ~Report() { std::printf("\n}\n"); }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  template <typename Measure>
  void row(const char* name, std::initializer_list<std::size_t> sizes, Measure measure) {
    bool first = true;
    for (const std::size_t size : sizes) {
      if (!choice_.has(name, size)) continue;
      if (first) std::printf("%s\n  \"%s\": {", is_first_row_ ? "" : ",", name);
      std::printf("%s\"%zu\": ", first ? "" : ", ", size);
      first = is_first_row_ = false;
      measure(size);
      std::fflush(stdout);
    }
    if (!first) std::printf("}");
  }

 private:
  const Choice& choice_;
  bool is_first_row_ = true;
};

void print(const Quantiles& q) {
  std::printf("{\"p25\": %.3f, \"median\": %.3f}", q.p25, q.median);
}
void print(double value) { std::printf("%.1f", value); }

int usage(std::FILE* to, int status) {
  std::fputs(
      "usage: verbena-raw [--seconds S] [--pin] [--only NAME[:SIZE]]...\n"
      "Measures the limits of this machine, S seconds (default 1) for each of 27 figures.\n"
      "--pin keeps the two sides on a processor each.\n",
      to);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 1;
  Choice choice;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option(argv[i]);
    if (option == "--help") return usage(stdout, 0);
    if (option == "--pin") {
      Pinning::enable();
      continue;
    }
    if (option == "--only" && i + 1 < argc) {
      choice.add(argv[++i]);
      continue;
    }
    if (option != "--seconds" || i + 1 == argc) return usage(stderr, 2);
    char* end = nullptr;
    seconds = std::strtod(argv[++i], &end);
    if (*end != '\0' || !(seconds > 0)) return usage(stderr, 2);
  }
  Report report(choice);
  report.row("udp_polled_rtt_us", {8, 4096},
             [&](std::size_t size) { print(udp_round_trip_us(size, false, seconds)); });
  report.row("udp_acknowledged_rtt_us", {8, 4096},
             [&](std::size_t size) { print(udp_acknowledged_round_trip_us(size, seconds)); });
  report.row("udp_sealed_rtt_us", {8, 4096},
             [&](std::size_t size) { print(udp_sealed_round_trip_us(size, seconds)); });
  report.row("udp_blocking_rtt_us", {8, 4096},
             [&](std::size_t size) { print(udp_round_trip_us(size, true, seconds)); });
  report.row("udp_stream_mb_s", {1024, 4096},
             [&](std::size_t size) { print(udp_stream_mb_s(size, seconds)); });
  report.row("udp_sealed_stream_mb_s", {1024, 4096},
             [&](std::size_t size) { print(udp_sealed_stream_mb_s(size, seconds)); });
  report.row("ring_hop_us", {8, 4096},
             [&](std::size_t size) { print(ring_hop_us(size, seconds)); });
  report.row("ring_stream_mb_s", {8, 1024, 4096, 32768},
             [&](std::size_t size) { print(ring_stream_mb_s(size, seconds)); });
  report.row("ring_buffers_mb_s", {1, 64, 1024},
             [&](std::size_t buffers) { print(ring_buffers_mb_s(buffers, seconds)); });
  report.row("memcpy_mb_s", {4096, 65536, 1048576},
             [&](std::size_t size) { print(memcpy_mb_s(size, seconds)); });
  report.row("process_vm_writev_mb_s", {4096, 65536, 1048576},
             [&](std::size_t size) { print(process_vm_writev_mb_s(size, seconds)); });
  return 0;
}
