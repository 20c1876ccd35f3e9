// SPDX-License-Identifier: BSD-2-Clause
#include "progress.hpp"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "verbena/link/clock.hpp"
#include "verbena/link/system_calls.hpp"

namespace verbena::provider {
namespace {

constexpr TimeNs kFirstTick = 50'000;
constexpr TimeNs kTick = 1'000'000;
// After ticks that long the application's polls keep the thread asleep. It looks all the same now
// and then, as others want to read the counters.
constexpr TimeNs kKeptTick = 100'000'000;
constexpr TimeNs kYieldTime = 100'000;
// How long the application is given to take what came. One that waits for its turn on the processor
// has taken it by then, one that waits for its memory to change has not.
constexpr TimeNs kTrialTime = 50'000;
constexpr unsigned long kWideSlack = 4'000'000;
constexpr unsigned long kNarrowSlack = 50'000;
// A poll so long ago is one that happens now; an application that shares its processor with others
// has longer gaps than one of its own.
constexpr TimeNs kJustNow = 50'000;
// One so short ago comes from a program that does nothing else and would have found the packet.
constexpr TimeNs kAtOnce = 2'000;
// kTrialTime, kJustNow and kAtOnce are for processors on which a few packets are taken in within so
// long. Emulated ones, and those of a valgrind, need many times as much for everything, and have
// the three times grow with it.
constexpr TimeNs kUsualTurn = 4'000;
constexpr TimeNs kScaleMax = 20;
constexpr TimeNs kTurnsRemembered = 64;
constexpr std::uint32_t kPatience = 8;
// So many wake-ups in vain weigh as much as one that found packets.
constexpr std::uint32_t kPriceOfWork = 3;
constexpr std::uint32_t kPatienceMax = 4096;
// Wake-ups that found packets, until the next trial; each that showed the thread to be needed
// doubles it.
constexpr std::uint32_t kFindsUntilTrial = 16;
constexpr std::uint32_t kFindsUntilTrialMax = 4096;
// Ticks after which having parked was right, and so few that it was wrong.
constexpr std::uint32_t kLongPark = 100;
constexpr std::uint32_t kShortPark = 10;
// Trials without a sign of the application, after which a parked thread watches again although
// nothing has come.
constexpr std::uint32_t kSilences = 8;
constexpr std::size_t kStack = 512 * 1024;

// The kernel's struct sched_attr, as far as it goes in its first version.
struct SchedulingAttributes {
  std::uint32_t size;
  std::uint32_t policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t runtime;
  std::uint64_t deadline;
  std::uint64_t period;
};

// The thread runs for microseconds at a time and wants to do so at once, also where applications
// spin on every processor: since Linux 6.12 a thread may ask for short slices and gets its turn
// sooner for it. Older kernels take no notice.
void ask_for_short_slices() noexcept {
  SchedulingAttributes attributes{};
  attributes.size = sizeof attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.runtime = 100'000;
  ::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

Progress::Progress(Driven& driven)
    : driven_(driven), patience_(kPatience), finds_until_trial_(kFindsUntilTrial) {}

int Progress::start() noexcept {
  kick_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!kick_) return errno;
  if (const int error = absence_.open(); error != 0) return error;
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStack);
  // The application's signals are the application's, but for those of its memory that we touch.
  sigset_t all, before;
  ::sigfillset(&all);
  ::sigdelset(&all, SIGSEGV);
  ::sigdelset(&all, SIGBUS);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = ::pthread_create(&thread_, &attributes, &run_thread, this);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_attr_destroy(&attributes);
  running_ = error == 0;
  return error;
}

void Progress::stop() noexcept {
  if (!running_) return;
  stopping_.publish(true);
  kick();
  ::pthread_join(thread_, nullptr);
  running_ = false;
}

void Progress::kick() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = link::write_bytes(kick_.get(), &one, sizeof one);
}

bool Progress::begin_attendance(std::int32_t armed) noexcept {
  if (sleep_.armed() != armed || !sleep_.begin_attendance()) return false;
  if (sleep_.rest() == Rest::kWatching) kick();
  return true;
}

void Progress::end_attendance(std::int32_t armed) noexcept {
  sleep_.end_attendance();
  const bool others_wait = sleep_.armed() != armed;
  if (others_wait) sleep_.note_others();
  if (sleep_.rest() == Rest::kRelieved || others_wait) kick();
}

void* Progress::run_thread(void* self) {
  ::pthread_setname_np(::pthread_self(), "verbena");
  ask_for_short_slices();
  static_cast<Progress*>(self)->run();
  return nullptr;
}

void Progress::park() noexcept {
  is_parked_ = true;
  ticks_ = 0;
  silences_ = 0;
  tick_ = kFirstTick;
}

void Progress::unpark() noexcept {
  if (is_parked_ && ticks_ < kShortPark) patience_ = std::min(patience_ * 2, kPatienceMax);
  is_parked_ = false;
  score_ = 0;
  finds_ = 0;
}

Progress::Wait Progress::rest() noexcept {
  if (++ticks_ >= kLongPark) {
    patience_ = kPatience;
    finds_until_trial_ = kFindsUntilTrial;
  }
  silences_ = 0;
  tick_ = std::min(2 * tick_, kTick);
  return Wait::kPark;
}

Progress::Wait Progress::begin_trial() noexcept {
  is_on_trial_ = true;
  polls_before_trial_ = sleep_.polls();
  return Wait::kTrial;
}

// True: the application has polled meanwhile.
bool Progress::end_trial(const Signs& signs) noexcept {
  is_on_trial_ = false;
  return signs.is_sending || sleep_.polls() != polls_before_trial_;
}

// By the shortest of late: whatever else there is to do, it takes as long as that.
void Progress::note_turn(TimeNs time) noexcept {
  turn_ = turn_ == 0 ? time : std::min(turn_ + turn_ / kTurnsRemembered + 1, time);
}

TimeNs Progress::scaled(TimeNs usual) const noexcept {
  return usual * std::clamp(turn_ / kUsualTurn, TimeNs{1}, kScaleMax);
}

// What is due is done all the same: whoever attends has left when it came, or posts in yet another
// thread.
Progress::Wait Progress::choose_attended(TimeNs now) noexcept {
  if (is_parked_ || is_on_trial_) is_parked_ = is_on_trial_ = false;
  const std::uint32_t attendances = sleep_.attendances();
  const bool has_moved = attendances != attendances_seen_;
  attendances_seen_ = attendances;
  if (driven_.next_deadline() <= now && driven_.drive_until_quiet() == Driven::Found::kAnother) {
    return Wait::kYield;
  }
  if (!has_moved) {
    stands_by_ = false;
    return Wait::kRelieved;
  }
  tick_ = stands_by_ ? std::min(2 * tick_, kTick) : kFirstTick;
  stands_by_ = true;
  return Wait::kStandBy;
}

// What to do next, and doing it unless the application does.
Progress::Wait Progress::choose() noexcept {
  const TimeNs now = link::monotonic_now_ns();
  if (sleep_.take_others()) {
    attendances_seen_ = sleep_.attendances();
  } else if (sleep_.is_attended() || sleep_.attendances() != attendances_seen_) {
    return choose_attended(now);
  }
  stands_by_ = false;
  const TimeNs last_poll = sleep_.last_poll();
  Signs signs{};
  signs.is_armed = sleep_.armed() != 0;
  signs.is_sending = sleep_.is_sending();
  signs.polls_now = !signs.is_armed && (signs.is_sending || now < last_poll + scaled(kJustNow));
  signs.would_have_found = signs.is_sending || now < last_poll + scaled(kAtOnce);
  // Where this thread waits long for its processor, too long ago to be now; but a trial will tell.
  signs.has_polled = !signs.is_armed && sleep_.polls() != polls_before_wait_;
  if (signs.is_armed) {
    is_on_trial_ = false;
    unpark();
  }
  return is_parked_ ? choose_parked(signs) : choose_watching(signs);
}

Progress::Wait Progress::choose_parked(const Signs& signs) noexcept {
  if (is_on_trial_) return end_trial(signs) ? rest() : end_silence();
  if (std::exchange(has_reminder_, false)) return heed_reminder();
  return signs.polls_now ? rest() : begin_trial();
}

// An application that was kept from its processor will soon be back, one that has gone elsewhere
// will not.
Progress::Wait Progress::end_silence() noexcept {
  const std::uint32_t polls = sleep_.polls();
  const Driven::Found found = driven_.drive_until_quiet();
  if (found == Driven::Found::kAnother) return rest();
  const bool stays = found == Driven::Found::kPackets
                         ? driven_.is_reminded() && !has_left_again(polls)
                         : ++silences_ < kSilences;
  if (!stays) return watch_again();
  tick_ = kFirstTick;
  return Wait::kPark;
}

Progress::Wait Progress::heed_reminder() noexcept {
  const std::uint32_t polls = sleep_.polls();
  if (driven_.drive_until_quiet() != Driven::Found::kPackets || !has_left_again(polls)) {
    return Wait::kPark;
  }
  return watch_again();
}

Progress::Wait Progress::watch_again() noexcept {
  if (ticks_ < kShortPark) ask_for_more_finds();
  unpark();
  return Wait::kWatch;
}

void Progress::ask_for_more_finds() noexcept {
  finds_until_trial_ = std::min(finds_until_trial_ * 2, kFindsUntilTrialMax);
}

// It may leave packets to this thread once because it waits for its memory to change, but goes on
// when it has, and polls. `polls`: before the thread took them.
bool Progress::has_left_again(std::uint32_t polls) noexcept {
  return std::exchange(polls_at_find_, polls) == polls;
}

Progress::Wait Progress::choose_watching(const Signs& signs) noexcept {
  if (is_on_trial_) {
    if (end_trial(signs)) return begin_rest();
    ask_for_more_finds();
    unpark();
  } else if ((signs.polls_now || signs.has_polled) && finds_ >= finds_until_trial_) {
    // No trial is needed where a mistake is soon put right.
    return driven_.is_reminded() ? begin_rest() : begin_trial();
  }
  return watch(signs);
}

Progress::Wait Progress::begin_rest() noexcept {
  park();
  return rest();
}

Progress::Wait Progress::watch(const Signs& signs) noexcept {
  const std::uint32_t polls = sleep_.polls();
  const Driven::Found found = driven_.drive_until_quiet();
  const bool polled_meanwhile = !signs.is_armed && sleep_.polls() != polls;
  const bool is_needless = found != Driven::Found::kPackets || signs.would_have_found;
  if (polled_meanwhile || (signs.polls_now && is_needless)) {
    if (++score_ >= patience_) return begin_rest();
  } else {
    if (found == Driven::Found::kPackets) ++finds_;
    score_ -= std::min(score_, kPriceOfWork);
  }
  return found == Driven::Found::kAnother ? Wait::kYield : Wait::kWatch;
}

void Progress::run() noexcept {
  while (!stopping_.read()) {
    wait(choose());
  }
}

void Progress::set_slack(bool wide) noexcept {
  if (wide == slack_is_wide_) return;
  slack_is_wide_ = wide;
  ::prctl(PR_SET_TIMERSLACK, wide ? kWideSlack : kNarrowSlack, 0, 0, 0);
}

Rest Progress::rest_for(Wait how) noexcept {
  switch (how) {
    case Wait::kWatch:
      return Rest::kWatching;
    case Wait::kRelieved:
      return Rest::kRelieved;
    case Wait::kStandBy:
      return Rest::kStandingBy;
    case Wait::kPark:
    case Wait::kYield:
    case Wait::kTrial:
      break;
  }
  return Rest::kParked;
}

void Progress::wait(Wait how) noexcept {
  const bool parked = how != Wait::kWatch && how != Wait::kRelieved;
  const bool ticks = how == Wait::kPark || how == Wait::kStandBy;
  const bool is_kept = how == Wait::kPark && tick_ == kTick && !control_is_busy_;
  set_slack(ticks && tick_ == kTick);
  polls_before_wait_ = sleep_.polls();
  TimeNs until = driven_.next_deadline();
  sleep_.announce(rest_for(how), until);
  // What came between the last look and the announcement.
  if (how == Wait::kPark && sleep_.armed() != 0) return sleep_.awake();
  if (sleep_.is_attended() ? how == Wait::kWatch : how == Wait::kRelieved) return sleep_.awake();
  const bool watches = how == Wait::kWatch && driven_.prepare_wait();
  until = std::min(until, driven_.next_deadline());

  const TimeNs now = link::monotonic_now_ns();
  TimeNs rest = until == kNever ? kNever : (until > now ? until - now : 0);
  if (control_is_busy_) rest = std::min(rest, kTick);
  // Something came meanwhile; but the daemon shall be heard under any load.
  if (how == Wait::kWatch && !watches) rest = 0;
  // Deadlines are then the business of whoever drives.
  if (parked) rest = ticks ? tick_ : how == Wait::kTrial ? scaled(kTrialTime) : kYieldTime;
  if (is_kept) {
    rest = kKeptTick;
    absence_.begin(now);
  }
  const timespec timeout{static_cast<time_t>(rest / 1'000'000'000u),
                         static_cast<long>(rest % 1'000'000'000u)};
  const bool receives = how == Wait::kWatch;
  pollfd fds[7] = {{kick_.get(), POLLIN, 0},
                   {control_is_busy_ ? -1 : driven_.control_fd(), POLLIN, 0},
                   {receives ? driven_.receive_fd() : -1, POLLIN, 0},
                   {receives || how == Wait::kPark ? driven_.wake_fd() : -1, POLLIN, 0},
                   {is_kept ? absence_.fd() : -1, POLLIN, 0},
                   {driven_.full_pipes_fd(), POLLIN, 0},
                   {receives ? driven_.further_fd() : -1, POLLIN, 0}};
  const int ready = ::ppoll(fds, std::size(fds), rest == kNever ? nullptr : &timeout, nullptr);
  sleep_.awake();
  absence_.end();
  if (is_kept) ticks_ += static_cast<std::uint32_t>((link::monotonic_now_ns() - now) / kTick);
  if (watches) driven_.end_wait();
  control_is_busy_ = false;
  if (ready <= 0) return;
  if (fds[0].revents != 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(kick_.get(), &count, sizeof count);
  }
  has_reminder_ = how == Wait::kPark && fds[3].revents != 0;
  if (has_reminder_) driven_.silence();
  if (fds[1].revents != 0) control_is_busy_ = !driven_.handle_control();
  if (fds[5].revents != 0) driven_.fill_pipes();
}

}  // namespace verbena::provider
