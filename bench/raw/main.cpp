// verbena-raw: what UDP, shared memory and memory copies give on this machine, as JSON. Run it in
// the same minutes as what is to be compared; on a busy machine only ratios mean anything.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "raw.hpp"

namespace {

using namespace verbena::bench;

// Writes `"name": {"size": value, ...}`, each value by `measure(size)`.
template <typename Measure>
void print_row(const char* name, std::initializer_list<std::size_t> sizes, Measure measure,
               bool is_last = false) {
  std::printf("  \"%s\": {", name);
  bool first = true;
  for (const std::size_t size : sizes) {
    std::printf("%s\"%zu\": ", first ? "" : ", ", size);
    first = false;
    measure(size);
    std::fflush(stdout);
  }
  std::printf("}%s\n", is_last ? "" : ",");
}

void print(const Quantiles& q) {
  std::printf("{\"p25\": %.3f, \"median\": %.3f}", q.p25, q.median);
}
void print(double value) { std::printf("%.1f", value); }

int usage(std::FILE* to, int status) {
  std::fputs(
      "usage: verbena-raw [--seconds S] [--pin]\n"
      "Measures the limits of this machine, S seconds (default 1) for each of 14 figures.\n"
      "--pin keeps the two sides on a processor each.\n",
      to);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option(argv[i]);
    if (option == "--help") return usage(stdout, 0);
    if (option == "--pin") {
      Pinning::enable();
      continue;
    }
    if (option != "--seconds" || i + 1 == argc) return usage(stderr, 2);
    char* end = nullptr;
    seconds = std::strtod(argv[++i], &end);
    if (*end != '\0' || !(seconds > 0)) return usage(stderr, 2);
  }
  std::printf("{\n");
  print_row("udp_polled_rtt_us", {8, 4096},
            [&](std::size_t size) { print(udp_round_trip_us(size, false, seconds)); });
  print_row("udp_blocking_rtt_us", {8, 4096},
            [&](std::size_t size) { print(udp_round_trip_us(size, true, seconds)); });
  print_row("udp_stream_mb_s", {1024, 4096},
            [&](std::size_t size) { print(udp_stream_mb_s(size, seconds)); });
  print_row("ring_hop_us", {8, 4096}, [&](std::size_t size) { print(ring_hop_us(size, seconds)); });
  print_row("memcpy_mb_s", {4096, 65536, 1048576},
            [&](std::size_t size) { print(memcpy_mb_s(size, seconds)); });
  print_row(
      "process_vm_writev_mb_s", {4096, 65536, 1048576},
      [&](std::size_t size) { print(process_vm_writev_mb_s(size, seconds)); }, true);
  std::printf("}\n");
  return 0;
}
