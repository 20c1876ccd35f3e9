// SPDX-License-Identifier: BSD-2-Clause
#include "scenario.hpp"

#include <cstdio>
#include <memory>
#include <vector>

#include "datagrams.hpp"
#include "traffic.hpp"

namespace verbena::sim {
namespace {

constexpr TimeNs kEndOfTime = 120'000'000'000;  // two minutes, the longest run allowed
constexpr memory::DomainId kCounterDomain = 1;

// Each fault is off in about half of the runs, so that no fault hides what another one would show.
Faults draw_faults(Random& random) {
  Faults f;
  const auto some = [&](std::uint32_t most) {
    return random.chance(500'000) ? static_cast<std::uint32_t>(random.below(most + 1)) : 0u;
  };
  f.drop = some(150'000);
  f.duplicate = some(150'000);
  f.reorder = some(150'000);
  f.corrupt = some(30'000);
  f.pause = some(2'000);
  f.delay_min = 500 + random.below(20'000);
  f.delay_spread = random.chance(300'000) ? random.below(50'000) : 0;
  f.receive_capacity = static_cast<std::uint32_t>(4 + random.below(200));
  // Some runs merge every packet that can be merged, some merge none.
  f.merged = random.chance(250'000) ? 1'000'000 : some(1'000'000);
  // In half of the runs a merged packet is not longer than a network's packet.
  const auto most = static_cast<std::uint32_t>(random.below(2 * wire::kMergedMost));
  f.merged_most = 256 + (most < wire::kMergedMost ? most % 4096 : most - wire::kMergedMost);
  f.run = random.chance(250'000) ? 1'000'000 : some(1'000'000);
  f.piggybacked_ack = random.chance(250'000) ? 1'000'000 : some(1'000'000);
  f.borrowed = random.chance(250'000) ? 1'000'000 : some(1'000'000);
  f.sealed = random.chance(250'000) ? 1'000'000 : some(1'000'000);
  f.bundled = random.chance(250'000) ? 1'000'000 : some(1'000'000);
  return f;
}

TrafficOptions draw_traffic(Random& random) {
  TrafficOptions t;
  t.mtu = static_cast<Mtu>(1 + random.below(3));
  t.operations = static_cast<std::uint32_t>(1 + random.below(60));
  t.send_depth = static_cast<std::uint32_t>(1 + random.below(32));
  t.receive_depth = static_cast<std::uint32_t>(1 + random.below(32));
  t.max_sges = static_cast<std::uint32_t>(1 + random.below(4));
  t.max_packets = static_cast<std::uint32_t>(1 + random.below(12));
  t.max_rd_atomic = static_cast<std::uint8_t>(1 + random.below(8));
  t.min_rnr_timer = static_cast<std::uint8_t>(1 + random.below(16));
  t.late_receives = random.chance(500'000) ? static_cast<std::uint32_t>(random.below(400'000)) : 0;
  t.unsignaled = static_cast<std::uint32_t>(random.below(900'000));
  t.use_srq = random.chance(250'000);
  t.use_xrc = !t.use_srq && random.chance(200'000);
  t.one_queue = random.chance(500'000);
  t.sends = random.chance(800'000);
  t.writes = random.chance(800'000);
  t.reads = random.chance(800'000);
  t.atomics = random.chance(600'000) || (!t.sends && !t.writes && !t.reads);
  return t;
}

// Whether packets arrive in the order in which they were sent. If so, an acknowledgement arrives
// before what was posted after it. Requests that ask for data are an exception: their responses may
// take longer.
bool is_in_order(const Faults& f) {
  return f.drop + f.duplicate + f.reorder + f.corrupt + f.pause == 0 && f.delay_spread == 0;
}

class Run {
 public:
  Run(std::uint64_t seed, const RunOptions& options) : world_(seed) {
    world_.set_trace(options.trace);
    Random& random = world_.random();
    world_.faults() = draw_faults(random);
    if (options.hard) {
      world_.faults().drop = world_.faults().duplicate = world_.faults().reorder = 150'000;
    }
    const std::size_t nodes = 2 + random.below(2);
    for (std::size_t i = 0; i < nodes; ++i) world_.add_node();
    for (std::size_t i = 0; i < nodes; ++i) {
      counters_.push_back(std::make_unique<SharedCounter>(world_.node(i), kCounterDomain));
    }
    const std::size_t connections = 1 + random.below(4);
    for (std::size_t i = 0; i < connections; ++i) connect(random.below(nodes), random.below(nodes));
    if (random.chance(400'000)) {
      datagrams_.push_back(std::make_unique<DatagramStream>(
          world_, world_.node(0), world_.node(1),
          random.chance(500'000) ? Transport::kUd : Transport::kUc));
    }
  }

  void play() {
    const TimeNs end = world_.now() + kEndOfTime;
    while (!is_done()) {
      for (auto& e : ends_) e->turn();
      for (auto& d : datagrams_) d->turn();
      if (is_done()) break;
      // The applications get a turn at least every 100 us.
      world_.step(world_.now() + 100'000);
      if (world_.now() > end) throw Failure("hangs: not done after two minutes of virtual time");
    }
    // Packets that are still in flight must not do harm.
    for (int i = 0; i < 300; ++i) world_.step(world_.now() + 1'000'000);
    for (auto& e : ends_) e->expect_final();
    for (auto& c : counters_) {
      c->tickets.expect_total(c->value());
      c->arena.expect_guards();
    }
    for (std::size_t i = 0; i < world_.size(); ++i) {
      for (const Event& event : world_.node(i).events()) {
        if (event.type != queue::AsyncEvent::kCommunicationEstablished) {
          throw Failure("an async event that nobody expected: " +
                        std::to_string(static_cast<int>(event.type)));
        }
      }
    }
  }

  World& world() { return world_; }
  std::uint64_t operations() const { return operations_; }
  std::size_t connections() const { return ends_.size() / 2; }

 private:
  void connect(std::size_t a, std::size_t b) {
    TrafficOptions options = draw_traffic(world_.random());
    options.in_order = is_in_order(world_.faults()) && !options.reads && !options.atomics;
    operations_ += 2 * options.operations;
    ends_.push_back(std::make_unique<End>(world_, world_.node(a), options, false));
    ends_.push_back(std::make_unique<End>(world_, world_.node(b), options, true));
    End& x = *ends_[ends_.size() - 2];
    End& y = *ends_.back();
    x.connect_to(y, counters_[b].get());
    y.connect_to(x, counters_[a].get());
    x.bring_up();
    y.bring_up();
  }
  bool is_done() const {
    for (const auto& e : ends_) {
      if (!e->is_done()) return false;
    }
    for (const auto& d : datagrams_) {
      if (!d->is_done()) return false;
    }
    return true;
  }

  World world_;
  std::vector<std::unique_ptr<SharedCounter>> counters_;
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<std::unique_ptr<DatagramStream>> datagrams_;
  std::uint64_t operations_ = 0;
};

}  // namespace

RunReport run_seed(std::uint64_t seed, const RunOptions& options) {
  RunReport report;
  Run run(seed, options);
  const Faults& f = run.world().faults();
  char text[200];
  std::snprintf(
      text, sizeof text,
      "%zu nodes, %zu connections; ppm: drop %u, duplicate %u, reorder %u, corrupt %u, pause %u",
      run.world().size(), run.connections(), f.drop, f.duplicate, f.reorder, f.corrupt, f.pause);
  report.description = text;
  try {
    run.play();
  } catch (const Failure& failure) {
    report.ok = false;
    report.failure = failure.what();
  }
  report.packets = run.world().packets();
  report.lost = run.world().lost();
  report.operations = run.operations();
  return report;
}

}  // namespace verbena::sim
