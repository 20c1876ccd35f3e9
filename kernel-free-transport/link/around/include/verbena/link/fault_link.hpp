// SPDX-License-Identifier: BSD-2-Clause
// A decorator that makes any link as bad as a network can be: loss, damage, duplication,
// reordering, delay, a slow line; for one queue pair or for all, by chance or by the rules of a
// script. Faults strike packets that are sent. While no fault is set, the decorator costs a load.
// The room verbena/fault decides what happens to a packet, from the seed and the packet alone.
//
// Threads: as Link says; rules may change at any time from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "verbena/base/drop_reason.hpp"
#include "verbena/base/fault_counters.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/fault/fate.hpp"
#include "verbena/fault/script.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/link/link.hpp"
#include "verbena/link/slow_lines.hpp"

namespace verbena::link {

struct FaultRule {
  Qpn flow{};                         // the sending queue pair; 0: all without a rule of their own
  fault::Settings settings{};         // without faults: spares the flow from the general rule
  FaultCounters* counters = nullptr;  // outlives the rule; null: nothing is counted
  bool starts_counting = false;       // whether the counters begin at 0
  bool has_own_line = false;          // whether its rate is not shared with other flows
};

class FaultLink final : public Link {
 public:
  // How many bytes are held back at most, as in a router's buffer.
  static constexpr std::size_t kHeldBytesMax = 16u << 20;
  // How long a packet waits for others to overtake it.
  static constexpr TimeNs kOvertakenMost = 500'000'000;

  // `program` names the program that sends; it is the same in each of its runs. `lines` are shared
  // with other links of the same context.
  FaultLink(std::unique_ptr<Link> inner, std::uint64_t program, DropCounters& drops,
            Clock clock = &monotonic_now_ns,
            std::shared_ptr<SlowLines> lines = std::make_shared<SlowLines>());
  ~FaultLink() override;

  // Replaces the rules; at most one for each flow. Flows without a line of their own share the
  // rate. Packets that are held back already still go out at their time, except that what waits
  // for a line goes at the line's new speed, or at once if the line is gone.
  void set_rules(std::span<const FaultRule> rules);
  // Replaces the rules of scripted faults. A rule that was there before, by its id, has been in
  // force since it first came, and goes on counting.
  void set_script(std::vector<fault::ActiveRule> script);

  std::size_t send(wire::TxBatch& batch, Qpn flow) noexcept override;
  // Also sends what was held back until now.
  std::size_t receive(RxSink& sink, std::size_t budget) noexcept override;
  // next_due() returns when the next packet that is held back has to go, or kNever: receive() has
  // to be called then, although nothing came. release_due() only sends what is due.
  TimeNs next_due() const noexcept { return next_due_.read(); }
  void release_due() noexcept;

  // Returns how long until slow lines have carried what this flow has sent. Any thread may call it.
  TimeNs wait_of_line(Qpn flow, TimeNs now) noexcept;

  // Returns whether all packets pass unchanged, and none is held back.
  bool is_idle() const noexcept { return !active_.read(); }
  const std::shared_ptr<SlowLines>& lines() const noexcept { return lines_; }

 private:
  class Line;  // rules, the script, the packets held back, the burst on its way

  void publish();

  std::unique_ptr<Link> inner_;
  Clock clock_;
  std::shared_ptr<SlowLines> lines_;
  Published<bool> active_{false};  // a fault is set, or something is held back
  Published<TimeNs> next_due_{kNever};

  Lock lock_;  // guards the line
  std::unique_ptr<Line> line_;
};

}  // namespace verbena::link
