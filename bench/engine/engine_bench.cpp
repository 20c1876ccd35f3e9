// SPDX-License-Identifier: BSD-2-Clause
// The engine's own cost per message and per call. `per_side` is half of what a message costs both
// devices together. The streams are printed beside a memcpy on the same machine.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <array>
#include <cstring>

#include "joined.hpp"

namespace verbena::bench {
namespace {

queue::Sge part_of(Host& host, std::uint32_t length, std::size_t at = 0) {
  return {reinterpret_cast<std::uint64_t>(host.memory.data()) + at, length, host.key};
}

void report(benchmark::State& state, std::uint64_t messages, std::uint32_t length) {
  state.SetItemsProcessed(static_cast<std::int64_t>(messages));
  state.SetBytesProcessed(static_cast<std::int64_t>(messages * length));
  state.counters["per_side"] =
      benchmark::Counter(2.0 * static_cast<double>(messages),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void write_8_bytes(benchmark::State& state) {
  Joined j;
  const queue::Sge sge = part_of(j.left, 8);
  const auto batch = static_cast<std::uint32_t>(state.range(0));
  const queue::SendRequest request = j.write(sge, state.range(1) != 0);
  std::uint64_t messages = 0;
  for (auto _ : state) {
    j.exchange(request, batch);
    messages += batch;
  }
  report(state, messages, 8);
}
BENCHMARK(write_8_bytes)->ArgNames({"batch", "inline"})->Args({1, 1})->Args({64, 1})->Args({64, 0});

void write_4096_bytes(benchmark::State& state) {
  Joined j;
  const queue::Sge sge = part_of(j.left, 4096);
  const queue::SendRequest request = j.write(sge, false);
  std::uint64_t messages = 0;
  for (auto _ : state) {
    j.exchange(request, 16);
    messages += 16;
  }
  report(state, messages, 4096);
}
BENCHMARK(write_4096_bytes);

// Goes through `kib` of memory on either side, which fits a cache or does not.
void send_4096_bytes(benchmark::State& state) {
  Joined j(256, static_cast<std::size_t>(state.range(0)) << 10);
  std::array<queue::Completion, 16> done;
  std::uint64_t messages = 0;
  for (auto _ : state) {
    const queue::Sge sge = part_of(j.left, 4096);
    queue::SendRequest request;
    request.sges = {&sge, 1};
    for (std::uint64_t i = 0; i < 16; ++i) j.right.post_receive(messages + i, 4096);
    j.exchange(request, 16, true, messages);
    benchmark::DoNotOptimize(j.right.receive_cq.poll(done));
    messages += 16;
  }
  report(state, messages, 4096);
}
BENCHMARK(send_4096_bytes)->ArgName("kib")->Arg(256)->Arg(65536);

void read_4096_bytes(benchmark::State& state) {
  Joined j;
  const queue::Sge sge = part_of(j.left, 4096);
  queue::SendRequest request = j.write(sge, false);
  request.opcode = queue::WorkOpcode::kRead;
  std::uint64_t messages = 0;
  for (auto _ : state) {
    j.exchange(request, 16);
    messages += 16;
  }
  report(state, messages, 4096);
}
BENCHMARK(read_4096_bytes);

// Copies the buffers of send_4096_bytes once.
void memcpy_4096_bytes(benchmark::State& state) {
  Joined j(256, static_cast<std::size_t>(state.range(0)) << 10);
  std::uint64_t messages = 0;
  for (auto _ : state) {
    for (std::size_t i = 0; i < 16; ++i) {
      std::memcpy(j.right.memory.data() + j.right.slot(messages + i),
                  j.left.memory.data() + j.left.slot(messages + i), 4096);
      benchmark::ClobberMemory();
    }
    messages += 16;
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(messages * 4096));
}
BENCHMARK(memcpy_4096_bytes)->ArgName("kib")->Arg(256)->Arg(65536);

void post_send_and_flush(benchmark::State& state) {
  Joined j;
  qp::Attributes a;
  a.state = qp::State::kError;
  (void)j.left.device->modify_qp(*j.left.qp, a, qp::kMaskState, j.left.now);
  const queue::Sge sge = part_of(j.left, 8);
  const queue::SendRequest request = j.write(sge, true);
  queue::Completion done;
  for (auto _ : state) {
    const Guard guard(j.left.qp->lock());
    benchmark::DoNotOptimize(j.left.qp->post_send(request));
    j.left.send_cq.poll_one(done);
  }
}
BENCHMARK(post_send_and_flush);

void poll_an_empty_queue(benchmark::State& state) {
  Joined j;
  queue::Completion done;
  for (auto _ : state) benchmark::DoNotOptimize(j.left.send_cq.poll_one(done));
}
BENCHMARK(poll_an_empty_queue);

void push_and_poll_a_completion(benchmark::State& state) {
  Joined j;
  queue::Completion done;
  for (auto _ : state) {
    j.left.send_cq.push(done, false);
    benchmark::DoNotOptimize(j.left.send_cq.poll_one(done));
  }
}
BENCHMARK(push_and_poll_a_completion);

// Measures memory instead of time: what a queue pair holds before anything is posted to it.
void bytes_of_an_idle_queue_pair(benchmark::State& state) {
  Joined j;
  constexpr std::size_t kMany = 4096;
  qp::QueuePairOptions o;
  o.domain = 1;
  o.send_cq = &j.left.send_cq;
  o.receive_cq = &j.left.receive_cq;
  o.send = {128, 4, 64, false};
  o.receive_capacity = 128;
  for (auto _ : state) {
    std::vector<qp::QueuePair*> all(kMany);
    const std::size_t before = mallinfo2().uordblks;
    for (auto& qp : all) qp = j.left.device->create_qp(o);
    state.counters["bytes"] = static_cast<double>(mallinfo2().uordblks - before) / kMany;
    for (auto& qp : all) j.left.device->destroy_qp(qp);
  }
}
BENCHMARK(bytes_of_an_idle_queue_pair)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace verbena::bench
