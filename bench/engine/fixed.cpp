// SPDX-License-Identifier: BSD-2-Clause
// bench_engine_fixed write8|send4096|read4096 COUNT: sends COUNT messages in batches of 64, and
// prints the number of packets. Two runs under callgrind with different counts give the
// instructions per packet without those of the start.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "joined.hpp"

int main(int argc, char** argv) {
  using namespace verbena;
  using namespace verbena::bench;
  if (argc != 3)
    return std::fprintf(stderr, "usage: %s write8|send4096|read4096 COUNT\n", argv[0]), 2;
  const bool sends = std::strcmp(argv[1], "send4096") == 0;
  const bool reads = std::strcmp(argv[1], "read4096") == 0;
  const std::uint32_t length = sends || reads ? 4096 : 8;
  Joined j;
  const queue::Sge sge{reinterpret_cast<std::uint64_t>(j.left.memory.data()), length, j.left.key};
  queue::SendRequest request = j.write(sge, !sends && !reads);
  if (sends) request.opcode = queue::WorkOpcode::kSend;
  if (reads) request.opcode = queue::WorkOpcode::kRead;
  queue::Completion done;
  const std::uint32_t batch = sends || reads ? 16 : 64;
  for (unsigned long left = std::strtoul(argv[2], nullptr, 0); left >= batch; left -= batch) {
    if (sends) {
      for (std::uint64_t i = 0; i < batch; ++i) j.right.post_receive(i, 4096);
    }
    j.exchange(request, batch);
    while (j.right.receive_cq.poll_one(done)) {
    }
  }
  std::printf("%llu\n", static_cast<unsigned long long>(j.left.packets + j.right.packets));
  return 0;
}
