// SPDX-License-Identifier: BSD-2-Clause
// goodput [--check FILE]: prints how much of a wire's rate arrives as payload, by loss and by how
// many packets the receiver can hold. Two devices on virtual time exchange a stream of WRITEs in
// packets of 1 KiB. A packet takes 1 us on the wire, with a delay of 5 us each way: about twelve
// packets in flight fill it. A cell is the mean of eight seeds, because under heavy loss seeds
// differ by a fifth. Virtual time makes the table the same on every machine. --check fails if a
// cell has fallen below 80% of the figure in FILE.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "pair.hpp"

namespace {

using namespace verbena;
using namespace verbena::sim;

constexpr std::uint32_t kLossPpm[] = {0, 1'000, 10'000, 50'000, 150'000};
constexpr std::uint32_t kCapacities[] = {8, 64, 512};
constexpr std::uint64_t kSeeds = 8;
constexpr TimeNs kDuration = 300'000'000;
constexpr TimeNs kNsPerPacket = 1'000;
constexpr std::uint32_t kPacket = 1024;
constexpr std::uint32_t kMessage = 16 * kPacket;
constexpr std::uint32_t kDepth = 48;

double goodput(std::uint32_t loss_ppm, std::uint32_t capacity, std::uint64_t seed) {
  PeerOptions options;
  options.mtu = Mtu::k1024;
  // A queue pair reads the capacity when it goes to RTS. So the pair is connected again below.
  Pair pair(options, seed);
  Faults& faults = pair.world.faults();
  faults.receive_capacity = capacity;
  faults.delay_min = 5'000;
  faults.wire_ns_per_kib = kNsPerPacket;
  pair.left.to_state(qp::State::kReset);
  pair.right.to_state(qp::State::kReset);
  pair.connect();
  faults.drop = loss_ppm;

  std::uint64_t posted = 0, completed = 0;
  const TimeNs end = pair.world.now() + kDuration;
  while (pair.world.now() < end) {
    while (posted - completed < kDepth)
      pair.left.post(pair.left.write(posted++, kMessage, pair.right));
    pair.world.step(end);
    pair.left.reap();
    for (const auto& c : pair.left.sends) {
      if (c.status != queue::Status::kSuccess) throw sim::Failure(std::string(to_string(c.status)));
    }
    completed += pair.left.sends.size();
    pair.left.sends.clear();
  }
  const double line = static_cast<double>(kDuration) / kNsPerPacket * kPacket;
  return static_cast<double>(completed) * kMessage / line;
}

double mean_goodput(std::uint32_t loss_ppm, std::uint32_t capacity) {
  double sum = 0;
  for (std::uint64_t seed = 42; seed < 42 + kSeeds; ++seed) {
    sum += goodput(loss_ppm, capacity, seed);
  }
  return sum / kSeeds;
}

struct Row {
  double loss_percent = 0;
  std::vector<double> cells;
};

std::vector<Row> measure() {
  std::vector<Row> rows;
  for (const std::uint32_t loss : kLossPpm) {
    Row row{loss / 1e4, {}};
    for (const std::uint32_t capacity : kCapacities)
      row.cells.push_back(mean_goodput(loss, capacity));
    rows.push_back(std::move(row));
  }
  return rows;
}

void print(const std::vector<Row>& rows) {
  std::printf("# goodput: payload delivered, as a part of the wire's rate\n# loss %%");
  for (const std::uint32_t capacity : kCapacities) std::printf("   hold %3u", capacity);
  std::printf("\n");
  for (const Row& row : rows) {
    std::printf("%8.1f", row.loss_percent);
    for (const double cell : row.cells) std::printf("   %8.3f", cell);
    std::printf("\n");
  }
}

int check(const std::vector<Row>& rows, const char* path) {
  std::ifstream file(path);
  std::string line;
  std::size_t at = 0;
  int worse = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    double loss = 0, kept = 0;
    fields >> loss;
    if (at == rows.size() || std::abs(loss - rows[at].loss_percent) > 0.01) break;
    for (const double cell : rows[at].cells) {
      if (!(fields >> kept)) return std::fprintf(stderr, "%s: a cell is missing\n", path), 1;
      if (cell >= 0.8 * kept) continue;
      std::fprintf(stderr, "%.1f%% loss: %.3f, was %.3f\n", loss, cell, kept);
      ++worse;
    }
    ++at;
  }
  if (at != rows.size()) return std::fprintf(stderr, "%s does not hold this table\n", path), 1;
  return worse == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool checks = argc == 3 && std::strcmp(argv[1], "--check") == 0;
  if (argc != 1 && !checks) return std::fprintf(stderr, "usage: %s [--check FILE]\n", argv[0]), 2;
  const std::vector<Row> rows = measure();
  print(rows);
  return checks ? check(rows, argv[2]) : 0;
}
