// SPDX-License-Identifier: BSD-2-Clause
#include "scenario.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "application.hpp"
#include "system.hpp"

namespace verbena::threads {
namespace {

constexpr TimeNs kMs = 1'000'000;
constexpr TimeNs kIdle = 10'000 * kMs;

struct Program {
  std::uint32_t processors = 0;
  std::unique_ptr<Engine> engine;
  Thread* progress = nullptr;
  std::vector<std::unique_ptr<Application>> applications;
  std::vector<Thread*> threads;
};

class Scenario {
 public:
  Scenario(std::uint64_t seed, const RunOptions& options)
      : dice_(seed), machine_(choose_machine(options), dice_), traces_(options.trace) {}

  RunReport run();

 private:
  struct Plan {
    std::uint32_t processors;
    std::size_t threads;
  };

  MachineOptions choose_machine(const RunOptions& options);
  std::vector<Plan> choose_programs();
  std::size_t most_at_a_processor(const std::vector<Plan>& plans) const;
  void make(const std::vector<Plan>& plans);
  Habits choose_habits(std::size_t program, std::size_t channel);
  void send_from_outside(std::size_t program, TimeNs gap);
  void settle();
  void watch_idle();
  void end();
  template <typename What>
  void each_thread(What&& what) {
    for (Program& p : programs_) {
      what(*p.progress, "the progress thread");
      for (Thread* thread : p.threads) what(*thread, "a thread of the application");
    }
  }

  Dice dice_;
  Machine machine_;
  bool traces_;
  std::unique_ptr<Judge> judge_;
  std::vector<Program> programs_;
  int over_fd_ = -1;
  TimeNs ends_at_ = 0;
  std::string description_;
};

MachineOptions Scenario::choose_machine(const RunOptions& options) {
  MachineOptions m;
  m.processors = dice_.one_of<std::size_t>({1, 1, 2, 2, 4});
  m.slice = dice_.one_of<TimeNs>({100'000, 1 * kMs, 3 * kMs});
  m.wake_cost = dice_.one_of<TimeNs>({1'000, 5'000, 50'000});
  m.switch_cost = dice_.between(500, 3'000);
  m.store_delay = dice_.one_of<TimeNs>({0, 100, 2'000, 20'000});
  m.preempting = dice_.one_of<std::uint32_t>({0, 50, 100});
  m.stalling = dice_.one_of<std::uint32_t>({0, 20, 100});
  m.steals = !dice_.one_in(3);
  m.has_fences = options.has_fences;
  m.has_kicks = options.has_kicks;
  return m;
}

std::vector<Scenario::Plan> Scenario::choose_programs() {
  const std::size_t processors = machine_.options().processors;
  const std::uint32_t all = (1u << processors) - 1;
  std::vector<Plan> plans(dice_.between(1, 3));
  for (Plan& plan : plans) {
    plan.processors = dice_.one_in(3) ? 1u << dice_.below(processors) : all;
    plan.threads = dice_.one_in(3) ? 2 : 1;
  }
  return plans;
}

std::size_t Scenario::most_at_a_processor(const std::vector<Plan>& plans) const {
  std::size_t most = 0;
  for (std::size_t i = 0; i < machine_.options().processors; ++i) {
    std::size_t count = 0;
    for (const Plan& plan : plans) {
      if ((plan.processors & (1u << i)) != 0) count += plan.threads + 1;
    }
    most = std::max(most, count);
  }
  return most;
}

Habits Scenario::choose_habits(std::size_t program, std::size_t channel) {
  Habits habits;
  habits.channel = channel;
  habits.poll_gap = dice_.one_of<TimeNs>({200, 500, 2'000});
  habits.post_gap = dice_.one_of<TimeNs>({50, 500, 5'000});
  habits.ends_at = ends_at_;
  for (auto i = dice_.one_of<std::uint64_t>({1, 1, 2, 3, 4}); i != 0; --i) {
    habits.likes.push_back(static_cast<int>(dice_.below(Application::kWays)));
  }
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    if (i != program) habits.peers.push_back(programs_[i].engine.get());
  }
  return habits;
}

void Scenario::make(const std::vector<Plan>& plans) {
  const MachineOptions& m = machine_.options();
  const std::size_t most = most_at_a_processor(plans);
  judge_ = std::make_unique<Judge>(machine_, most, traces_);
  over_fd_ = machine_.open(Machine::Kind::kLevel);
  // Some runs last longer than any message may wait.
  const TimeNs busy =
      dice_.one_in(8) ? dice_.between(30 * kMs, 60 * kMs) : dice_.between(2 * kMs, 16 * kMs);
  ends_at_ = machine_.now() + busy + judge_->turn();
  description_ = std::to_string(m.processors) + " processors, " + std::to_string(plans.size()) +
                 " programs, up to " + std::to_string(most) +
                 " threads at a processor, slices of " + std::to_string(m.slice / 1000) + " us";
  for (const Plan& plan : plans) {
    Program& program = programs_.emplace_back();
    program.processors = plan.processors;
    EngineOptions options;
    options.channels = plan.threads;
    options.is_on_one_processor = (plan.processors & (plan.processors - 1)) == 0;
    options.timeout = dice_.between(50'000, 20 * kMs);
    options.is_answered_late = dice_.one_in(2);
    program.engine = std::make_unique<Engine>(machine_, *judge_, options);
    set_processors_of_next_thread(plan.processors);
    program.engine->start();
    program.progress = &thread_made_last();
  }
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    Program& program = programs_[i];
    for (std::size_t channel = 0; channel < program.engine->channels(); ++channel) {
      program.applications.push_back(std::make_unique<Application>(
          machine_, *judge_, *program.engine, choose_habits(i, channel), over_fd_));
      Application& application = *program.applications.back();
      program.threads.push_back(&machine_.spawn("application", program.processors,
                                                [&application] { application.run(); }));
    }
    if (dice_.one_in(4)) continue;
    send_from_outside(i, dice_.one_of<TimeNs>({20'000, 200'000, 2 * kMs, 6 * kMs}));
  }
}

// Sends one or a few messages, and repeats this after a while.
void Scenario::send_from_outside(std::size_t program, TimeNs gap) {
  machine_.at(machine_.now() + dice_.between(gap / 8, 2 * gap), [this, program, gap] {
    if (machine_.now() >= ends_at_) return;
    Engine& engine = *programs_[program].engine;
    for (std::uint64_t i = dice_.one_in(4) ? dice_.between(2, 6) : 1; i != 0; --i) {
      Message message;
      message.channel = dice_.below(engine.channels());
      engine.arrive(message);
    }
    send_from_outside(program, gap);
  });
}

// Runs until all applications have come to their ends, and expects that everything was read.
void Scenario::settle() {
  const auto all_idle = [this] {
    return std::all_of(programs_.begin(), programs_.end(), [](const Program& p) {
      return std::all_of(p.applications.begin(), p.applications.end(),
                         [](const auto& a) { return a->is_idle(); });
    });
  };
  machine_.run_until(ends_at_);
  for (int i = 0; i < 1000 && judge_->failure().empty() && !all_idle(); ++i) {
    machine_.run_until(machine_.now() + 10 * kMs);
  }
  if (!all_idle()) judge_->fail("an application does not come to its end");
  machine_.run_until(machine_.now() + 2 * longest_unattended(judge_->turn()) + 500 * kMs);
  for (const Program& p : programs_) {
    if (p.engine->has_unread_packets()) judge_->fail("packets are left");
    for (const auto& application : p.applications) {
      if (application->waits_in_vain()) judge_->fail("a thread waits for an event in vain");
    }
  }
}

void Scenario::watch_idle() {
  std::vector<std::uint64_t> wake_ups;
  std::vector<TimeNs> has_run;
  each_thread([&](const Thread& thread, const char*) {
    wake_ups.push_back(thread.wake_ups);
    has_run.push_back(thread.has_run);
  });
  machine_.run_until(machine_.now() + kIdle);
  std::size_t i = 0;
  each_thread([&](const Thread& thread, const char* what) {
    const std::uint64_t woke = thread.wake_ups - wake_ups[i];
    const TimeNs ran = thread.has_run - has_run[i++];
    if (woke == 0 && ran == 0) return;
    judge_->fail(std::string(what) + " of an idle program woke " + std::to_string(woke) +
                 " times in 10 s, and ran for " + std::to_string(ran / 1000) + " us");
  });
}

void Scenario::end() {
  machine_.restore_kicks();
  machine_.set_readable(over_fd_, true);
  for (Program& program : programs_) {
    for (const Thread* thread : program.threads) machine_.run_until_ended(*thread);
  }
  for (Program& program : programs_) program.engine->stop();
}

RunReport Scenario::run() {
  make(choose_programs());
  settle();
  if (judge_->failure().empty()) watch_idle();
  RunReport report;
  report.failure = judge_->failure();
  report.description = description_;
  report.messages = judge_->messages();
  report.steps = machine_.steps();
  each_thread([&](const Thread& thread, const char*) { report.wake_ups += thread.wake_ups; });
  report.worst_attended = judge_->worst_attended();
  report.worst_unattended = judge_->worst_unattended();
  if (report.failure.empty()) end();
  return report;
}

}  // namespace

RunReport run_seed(std::uint64_t seed, const RunOptions& options) {
  auto scenario = std::make_unique<Scenario>(seed, options);
  RunReport report = scenario->run();
  // Threads of a failed run stay where they are and cannot end, so the scenario is leaked.
  if (!report.failure.empty()) (void)scenario.release();
  return report;
}

}  // namespace verbena::threads
