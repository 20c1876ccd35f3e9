// SPDX-License-Identifier: BSD-2-Clause
// The progress thread drives when it must, and sleeps when it may. Threads meet at condition
// variables here, and never wait for a time to pass.
#include "verbena/progress/progress.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "verbena/link/clock.hpp"

namespace verbena::provider {
namespace {

class Driven1 final : public Driven {
 public:
  Driven1()
      : packets_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        nudges_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  Found drive_until_quiet() noexcept override {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(packets_.get(), &count, sizeof count);
    const std::lock_guard guard(lock_);
    if (meanwhile) meanwhile();
    ++drives_;
    arrived_ += count;
    deadline_ = kNever;
    changed_.notify_all();
    return count != 0 ? Found::kPackets : Found::kNothing;
  }
  bool handle_control() noexcept override { return true; }
  bool prepare_wait() noexcept override {
    ++prepared_;
    return true;
  }
  void end_wait() noexcept override {}
  void silence() noexcept override {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(nudges_.get(), &count, sizeof count);
    const std::lock_guard guard(lock_);
    ++silenced_;
    changed_.notify_all();
  }
  int receive_fd() const noexcept override { return packets_.get(); }
  int wake_fd() const noexcept override { return nudges_.get(); }
  int control_fd() const noexcept override { return -1; }
  TimeNs next_deadline() const noexcept override {
    turns_.fetch_add(1, std::memory_order_relaxed);  // each turn asks for the deadline
    const std::lock_guard guard(lock_);
    return deadline_;
  }

  void send_packet() {
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(packets_.get(), &one, sizeof one), 8);
  }
  void nudge() {
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(nudges_.get(), &one, sizeof one), 8);
  }
  std::uint64_t silenced() const {
    const std::lock_guard guard(lock_);
    return silenced_;
  }
  void set_deadline(TimeNs deadline) {
    const std::lock_guard guard(lock_);
    deadline_ = deadline;
  }
  void await_arrivals(std::uint64_t count) {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return arrived_ >= count; });
  }
  std::uint64_t drives() const {
    const std::lock_guard guard(lock_);
    return drives_;
  }
  void await_drives(std::uint64_t count) {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return drives_ >= count; });
  }
  // Returns when the thread has done its work for a deadline.
  void await_deadline(Progress& progress) {
    const std::uint64_t before = drives();
    const TimeNs now = link::monotonic_now_ns();
    set_deadline(now);
    progress.note_deadline(now);
    await_drives(before + 1);
  }
  std::uint64_t prepared() const { return prepared_; }
  std::uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }
  std::function<void()> meanwhile;  // what the application does while the thread drives

 private:
  control::UniqueFd packets_;
  control::UniqueFd nudges_;
  std::atomic<std::uint64_t> prepared_{0};  // how often the thread prepared to sleep on packets
  mutable std::atomic<std::uint64_t> turns_{0};
  mutable std::mutex lock_;
  std::condition_variable changed_;
  std::uint64_t drives_ = 0;
  std::uint64_t arrived_ = 0;
  std::uint64_t silenced_ = 0;
  TimeNs deadline_ = kNever;
};

TEST(Progress, ReceivesForAnApplicationThatDoesNotPoll) {
  Driven1 driven;
  Progress progress(driven);
  ASSERT_EQ(progress.start(), 0);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    driven.send_packet();
    driven.await_arrivals(i);
  }
}

TEST(Progress, ReceivesAgainAfterTheApplicationStoppedPolling) {
  Driven1 driven;
  Progress progress(driven);
  ASSERT_EQ(progress.start(), 0);
  for (int i = 0; i < 1000; ++i) progress.note_poll(link::monotonic_now_ns());
  driven.send_packet();
  driven.await_arrivals(1);
}

TEST(Progress, ReceivesWhileACompletionQueueIsArmedThoughPollsContinue) {
  Driven1 driven;
  Progress progress(driven);
  ASSERT_EQ(progress.start(), 0);
  progress.note_armed(false);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    progress.note_poll(link::monotonic_now_ns());
    driven.send_packet();
    driven.await_arrivals(i);
  }
}

// Packets are found late each time, but the application goes on polling: it only waited for the
// processor that the thread took.
TEST(Progress, RestsWhereTheApplicationWouldHaveTakenWhatCame) {
  Driven1 driven;
  Progress progress(driven);
  ASSERT_EQ(progress.start(), 0);
  bool rests = false;
  while (!rests) {
    driven.send_packet();
    for (int i = 0; i < 100; ++i) progress.note_poll(link::monotonic_now_ns() - 10'000);
    rests = progress.is_parked();
  }
}

// Returns when the thread has slept longer than any tick while the application polled. A sleep in
// which a busy machine delayed the polls does not count.
void poll_until_it_sleeps_long(Progress& progress, Driven1& driven) {
  constexpr TimeNs kLong = 7'000'000;
  constexpr TimeNs kPause = 1'000'000;
  while (!progress.is_parked()) {
    driven.send_packet();
    for (int i = 0; i < 100; ++i) progress.note_poll(link::monotonic_now_ns());
  }
  TimeNs last = link::monotonic_now_ns();
  TimeNs since = last;
  std::uint64_t turns = driven.turns();
  while (last - since < kLong) {
    const TimeNs now = link::monotonic_now_ns();
    progress.note_poll(now);
    if (const std::uint64_t seen = driven.turns(); seen != turns || now - last > kPause) {
      turns = seen;
      since = now;
    }
    last = now;
  }
}

TEST(Progress, SleepsAsLongAsTheApplicationPolls) {
  Driven1 driven;
  Progress progress(driven);
  ASSERT_EQ(progress.start(), 0);
  poll_until_it_sleeps_long(progress, driven);
}

// At least once, the thread wakes sooner than it would look by itself.
TEST(Progress, WakesSoonAfterPollsThatKeptItAsleep) {
  Driven1 driven;
  Progress progress(driven);
  ASSERT_EQ(progress.start(), 0);
  TimeNs passed = 0;
  do {
    poll_until_it_sleeps_long(progress, driven);
    const TimeNs left = link::monotonic_now_ns();
    const std::uint64_t before = driven.drives();
    driven.send_packet();
    driven.await_drives(before + 1);
    passed = link::monotonic_now_ns() - left;
  } while (passed > 50'000'000);
}

// A send takes longer than a pause between polls, and the application receives after it.
TEST(Progress, RestsWhileTheApplicationSends) {
  Driven1 driven;
  Progress progress(driven);
  ASSERT_EQ(progress.start(), 0);
  progress.note_sending(true);
  bool rests = false;
  while (!rests) {
    progress.note_poll();
    driven.send_packet();
    rests = progress.is_parked();
  }
  progress.note_sending(false);
  const std::uint64_t before = driven.drives();
  driven.send_packet();
  driven.await_drives(before + 1);
}

// An application that streams datagrams may be in a send whenever the thread looks.
TEST(Progress, ReceivesForAnApplicationThatSendsAndNeverPolls) {
  Driven1 driven;
  Progress progress(driven);
  ASSERT_EQ(progress.start(), 0);
  progress.note_sending(true);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    driven.send_packet();
    driven.await_arrivals(i);
  }
}

TEST(Progress, ReceivesForAnApplicationThatSendsAndSleeps) {
  Driven1 driven;
  Progress progress(driven);
  ASSERT_EQ(progress.start(), 0);
  progress.note_sending(true);
  progress.note_armed(false);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    driven.send_packet();
    driven.await_arrivals(i);
  }
}

// By its clock the application has not polled for long, but each time it polls while the thread
// handles the packets.
TEST(Progress, RestsWhereTheApplicationComesWhileItDrives) {
  Driven1 driven;
  Progress progress(driven);
  driven.meanwhile = [&] { progress.note_poll(1); };
  ASSERT_EQ(progress.start(), 0);
  bool rests = false;
  while (!rests) {
    driven.send_packet();
    rests = progress.is_parked();
  }
}

// The application polls all the time, so only the nudge makes the thread look.
TEST(Progress, HeedsANudgeWhileItRests) {
  Driven1 driven;
  Progress progress(driven);
  ASSERT_EQ(progress.start(), 0);
  const auto poll = [&] { progress.note_poll(link::monotonic_now_ns()); };
  for (std::uint64_t i = 1; i <= 20; ++i) {
    for (bool rests = false; !rests;) {
      driven.send_packet();
      poll();
      rests = progress.is_parked();
    }
    const std::uint64_t before = driven.drives();
    const std::uint64_t silenced = driven.silenced();
    driven.send_packet();
    driven.nudge();
    while (driven.silenced() == silenced || driven.drives() == before) poll();
  }
}

// The application polls until it finds its completion, and then waits for its memory to change,
// again and again. The packet that changes the memory does not wait for the end of a lease.
TEST(Progress, LearnsToWatchForAnApplicationThatWaitsForItsMemoryToChange) {
  Driven1 driven;
  Progress progress(driven);
  ASSERT_EQ(progress.start(), 0);
  int in_a_row = 0;
  for (std::uint64_t i = 1; in_a_row < 20; ++i) {
    for (int k = 0; k < 10; ++k) progress.note_poll(link::monotonic_now_ns());
    progress.note_found();
    const std::uint64_t before = driven.prepared();
    driven.send_packet();
    driven.await_arrivals(i);
    while (driven.prepared() == before) ::sched_yield();
    in_a_row = progress.is_parked() ? 0 : in_a_row + 1;
  }
}

// Each packet is found, with and without a nudge, and with and without a poll in between.
TEST(Progress, ReceivesForAnApplicationThatIsAwaySinceItPolled) {
  Driven1 driven;
  Progress progress(driven);
  ASSERT_EQ(progress.start(), 0);
  for (int i = 0; i < 1000; ++i) progress.note_poll(link::monotonic_now_ns());
  for (std::uint64_t i = 1; i <= 200; ++i) {
    driven.send_packet();
    if (i % 2 == 0) driven.nudge();
    if (i % 3 == 0) progress.note_poll(link::monotonic_now_ns());
    driven.await_arrivals(i);
  }
}

// An idle context must not wake any thread, so a parked thread does not stay parked for ever.
TEST(Progress, WatchesAgainWhereNobodyPollsAndNothingComes) {
  Driven1 driven;
  Progress progress(driven);
  ASSERT_EQ(progress.start(), 0);
  for (bool rests = false; !rests;) {
    driven.send_packet();
    for (int i = 0; i < 100; ++i) progress.note_poll(link::monotonic_now_ns());
    rests = progress.is_parked();
  }
  const std::uint64_t before = driven.prepared();
  while (driven.prepared() == before) ::sched_yield();
}

TEST(Progress, ReceivesForAnApplicationThatPollsOnceAndThenWaits) {
  Driven1 driven;
  Progress progress(driven);
  ASSERT_EQ(progress.start(), 0);
  for (std::uint64_t i = 1; i <= 200; ++i) {
    progress.note_poll(link::monotonic_now_ns());
    driven.send_packet();
    driven.await_arrivals(i);
  }
}

TEST(Progress, WakesForADeadlineThatCameWhileItSlept) {
  Driven1 driven;
  Progress progress(driven);
  ASSERT_EQ(progress.start(), 0);
  driven.send_packet();
  driven.await_arrivals(1);
  const std::uint64_t before = driven.drives();
  const TimeNs soon = link::monotonic_now_ns() + 2'000'000;
  driven.set_deadline(soon);
  progress.note_deadline(soon);
  driven.await_drives(before + 1);
}

TEST(Progress, MindsDeadlinesOnlyWhileAReaderIsBlocked) {
  Driven1 driven;
  Progress progress(driven);
  ASSERT_EQ(progress.start(), 0);
  ASSERT_TRUE(progress.begin_blocked_read(0));
  for (int i = 0; i < 2; ++i) driven.await_deadline(progress);  // a preparation may be under way
  const std::uint64_t before = driven.prepared();
  for (int i = 0; i < 50; ++i) driven.await_deadline(progress);
  EXPECT_EQ(driven.prepared(), before);
  progress.end_blocked_read(0);
}

TEST(Progress, ReceivesAgainAfterTheBlockedReaderHasLeft) {
  Driven1 driven;
  Progress progress(driven);
  ASSERT_EQ(progress.start(), 0);
  for (std::uint64_t i = 1; i <= 50; ++i) {
    ASSERT_TRUE(progress.begin_blocked_read(0));
    if (i % 2 == 0) driven.await_deadline(progress);
    progress.end_blocked_read(0);
    driven.send_packet();
    driven.await_arrivals(i);
  }
}

TEST(Progress, HasOneBlockedReaderAtATimeAndNoneWhileOthersWait) {
  Driven1 driven;
  Progress progress(driven);
  ASSERT_EQ(progress.start(), 0);
  ASSERT_TRUE(progress.begin_blocked_read(0));
  EXPECT_FALSE(progress.begin_blocked_read(0));
  progress.end_blocked_read(0);
  progress.note_armed(false);
  EXPECT_FALSE(progress.begin_blocked_read(0)) << "somebody waits for an event elsewhere";
  EXPECT_TRUE(progress.begin_blocked_read(1)) << "it is that reader";
  // Another queue was armed meanwhile.
  progress.note_armed(false);
  progress.end_blocked_read(1);
  driven.send_packet();
  driven.await_arrivals(1);
}

TEST(Progress, StopsAtOnceEvenWhenItSleepsForEver) {
  Driven1 driven;
  for (int i = 0; i < 50; ++i) {
    Progress progress(driven);
    ASSERT_EQ(progress.start(), 0);
    progress.stop();
    progress.stop();
  }
}

// A thread that blocks for events between its posts does not post one request after the other.
TEST(ProgressLooks, ChangeWithEachWaitAsTheyDoWithEachPoll) {
  Driven1 driven;
  Progress progress(driven);
  const std::uint32_t at_first = progress.looks();
  progress.note_poll();
  const std::uint32_t after_poll = progress.looks();
  EXPECT_NE(after_poll, at_first);
  ASSERT_TRUE(progress.begin_blocked_read(0));
  progress.end_blocked_read(0);
  EXPECT_NE(progress.looks(), after_poll);
}

}  // namespace
}  // namespace verbena::provider
