// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/progress/progress.hpp"

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

#include "verbena/base/standard_streams.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/link/system_calls.hpp"
#include "verbena/progress/last_threads.hpp"
#include "verbena/progress/times.hpp"
#include "verbena/report/thread_guard.hpp"

namespace verbena::provider {
namespace {

constexpr std::size_t kStack = 512 * 1024;

// Blocks all signals while a thread is made, because the application's signals are for the
// application. Uses the system call, because the preload library's functions would leave SIGSEGV
// and SIGBUS unblocked, and a signal that is sent could reach the new thread before it blocks them
// itself.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept : is_set_(change(&kAll, &before_)) {}
  ~SignalsBlocked() {
    if (is_set_) change(&before_, nullptr);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  // The kernel's 64 signals without the C library's own two, which its threads must receive.
  static constexpr std::uint64_t kAll = ~(std::uint64_t{3} << 31);

  static bool change(const std::uint64_t* set, std::uint64_t* before) noexcept {
    return ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, set, before, sizeof *set) == 0;
  }

  std::uint64_t before_ = 0;
  bool is_set_;
};

}  // namespace

Progress::Progress(Driven& driven) : driven_(driven), term_(times::kFirstTerm) {}

int Progress::start() noexcept {
  kick_.reset(beyond_streams(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)));
  if (!kick_) return errno;
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStack);
  int error = 0;
  {
    const SignalsBlocked blocked;
    error = ::pthread_create(&thread_, &attributes, &run_thread, this);
  }
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

void Progress::leave_behind() noexcept {
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  if (!running_) return;
  const auto end = static_cast<std::int64_t>(link::monotonic_now_ns()) + kNsPerSecond;
  const timespec until{end / kNsPerSecond, end % kNsPerSecond};
  if (::pthread_clockjoin_np(thread_, nullptr, CLOCK_MONOTONIC, &until) != 0) {
    ::pthread_detach(thread_);
  }
  running_ = false;
}

void Progress::kick() noexcept {
  if (is_cut_off_.read()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = link::write_bytes(kick_.get(), &one, sizeof one);
}

bool Progress::begin_blocked_read(std::int32_t armed) noexcept {
  if (sleep_.armed() != armed || !sleep_.begin_blocked_read()) return false;
  if (sleep_.rest() == Rest::kWatching) kick();
  return true;
}

void Progress::end_blocked_read(std::int32_t armed) noexcept {
  sleep_.end_blocked_read();
  const bool others_wait = sleep_.armed() != armed;
  if (others_wait) sleep_.note_others();
  if (sleep_.rest() == Rest::kRelieved || others_wait) kick();
}

void* Progress::run_thread(void* self) {
  ::pthread_setname_np(::pthread_self(), "verbena");
  // Faults in memory that this thread touches are ours, but signals that are sent are not for this
  // thread. (Where the preload library guards memory, a thread does not inherit that its creator
  // blocks these two.)
  sigset_t faults;
  ::sigemptyset(&faults);
  ::sigaddset(&faults, SIGSEGV);
  ::sigaddset(&faults, SIGBUS);
  ::pthread_sigmask(SIG_BLOCK, &faults, nullptr);
  note_thread();
  last_threads::note_begun();
  static_cast<Progress*>(self)->run();
  last_threads::note_ended();
  return nullptr;
}

// A deadline that is due is handled here all the same: the blocked reader may have left by then, or
// another thread may have posted.
Rest Progress::choose_beside_reader(TimeNs now) noexcept {
  is_parked_ = false;
  const std::uint32_t blocked_reads = sleep_.blocked_reads();
  const bool has_moved = blocked_reads != blocked_reads_seen_;
  blocked_reads_seen_ = blocked_reads;
  if (driven_.next_deadline() <= now && driven_.drive_until_quiet() == Driven::Found::kAnother) {
    return Rest::kYielding;
  }
  if (!has_moved) {
    stands_by_ = false;
    return Rest::kRelieved;
  }
  term_ = stands_by_ ? std::min(2 * term_, times::kTerm) : times::kFirstTerm;
  stands_by_ = true;
  return Rest::kStandingBy;
}

// Decides what to do next, and drives unless the application does.
Rest Progress::choose() noexcept {
  const TimeNs now = link::monotonic_now_ns();
  if (sleep_.take_others()) {
    blocked_reads_seen_ = sleep_.blocked_reads();
  } else if (sleep_.has_blocked_reader() || sleep_.blocked_reads() != blocked_reads_seen_) {
    return choose_beside_reader(now);
  }
  stands_by_ = false;
  if (sleep_.armed() != 0) {
    is_parked_ = false;
    return wait_after(driven_.drive_until_quiet());
  }
  return is_parked_ ? choose_parked(now) : choose_watching(now);
}

// Returns whether the application holds the lease. An application that sends all the time and never
// polls does not: packets would wait until this thread happens to look between two posts.
bool Progress::application_drives(TimeNs now) const noexcept {
  return (sleep_.is_sending() && has_polled()) || (has_just_polled(now) && sleep_.polls_in_vain());
}

// Returns whether the application has polled since the last sleep began.
bool Progress::has_polled() const noexcept { return sleep_.polls() != polls_before_wait_; }

bool Progress::has_just_polled(TimeNs now) const noexcept {
  return now < sleep_.last_poll() + times::kLease;
}

Rest Progress::park() noexcept {
  is_parked_ = true;
  return Rest::kParked;
}

// An application that waited by polling was perhaps kept from its processor; then terms should be
// longer than others hold the processor.
void Progress::note_left_lying() noexcept {
  if (sleep_.polls_in_vain()) {
    term_ = std::max(term_ / 2, times::kFirstTerm);
  } else {
    term_ = times::kFirstTerm;
    parking_.lost();
  }
}

Rest Progress::stay_parked() noexcept {
  if (term_ == times::kTerm) parking_.won();
  term_ = std::min(2 * term_, times::kTerm);
  return Rest::kParked;
}

// A nudge comes from a peer whose packets are not read. One may come while the application works on
// what it got. A second one without a poll in between means that the application is away.
Rest Progress::choose_parked(TimeNs now) noexcept {
  if (std::exchange(was_nudged_, false)) {
    const std::uint32_t polls = sleep_.polls();
    if (driven_.drive_until_quiet() != Driven::Found::kPackets) return Rest::kParked;
    if (std::exchange(polls_at_nudge_, polls) != polls) return Rest::kParked;
  } else if (application_drives(now)) {
    return stay_parked();
  } else if (has_polled()) {
    // The application has just left, or is kept from its processor.
    return Rest::kParked;
  } else {
    const Driven::Found found = driven_.drive_until_quiet();
    if (found == Driven::Found::kAnother) return stay_parked();
    if (found == Driven::Found::kPackets) note_left_lying();
  }
  is_parked_ = false;
  return Rest::kWatching;
}

// The application shows that it can do without this thread by polling now, by polling while this
// thread drives, or by having taken the packets itself.
Rest Progress::choose_watching(TimeNs now) noexcept {
  bool is_needless = application_drives(now);
  if (is_needless && parking_.is_on()) return park();
  const std::uint32_t polls = sleep_.polls();
  const Driven::Found found = driven_.drive_until_quiet();
  if (sleep_.polls() != polls) is_needless = true;
  if (found != Driven::Found::kPackets && has_just_polled(now)) is_needless = true;
  is_needless ? parking_.would_have_won() : parking_.would_have_lost();
  return is_needless && parking_.is_on() ? park() : wait_after(found);
}

Rest Progress::wait_after(Driven::Found found) noexcept {
  return found == Driven::Found::kAnother ? Rest::kYielding : Rest::kWatching;
}

void Progress::run() noexcept {
  while (!stopping_.read()) {
    wait(choose());
    if (last_threads::is_first_gone()) [[unlikely]]
      last_threads::end_process_if_alone();
  }
}

void Progress::set_slack(bool wide) noexcept {
  if (wide == slack_is_wide_) return;
  slack_is_wide_ = wide;
  ::prctl(PR_SET_TIMERSLACK, wide ? times::kWideSlack : times::kNarrowSlack, 0, 0, 0);
}

void Progress::wait(Rest how) noexcept {
  const bool parked = how != Rest::kWatching && how != Rest::kRelieved;
  const bool has_term = how == Rest::kParked || how == Rest::kStandingBy;
  set_slack(has_term && term_ == times::kTerm);
  polls_before_wait_ = sleep_.polls();
  TimeNs until = driven_.next_deadline();
  sleep_.announce(how, until);
  // These came between the last look and the announcement.
  if (how == Rest::kParked && sleep_.armed() != 0) return sleep_.awake();
  if (sleep_.has_blocked_reader() ? how == Rest::kWatching : how == Rest::kRelieved)
    return sleep_.awake();
  const bool watches = how == Rest::kWatching && driven_.prepare_wait();
  until = std::min(until, driven_.next_deadline());

  const TimeNs now = link::monotonic_now_ns();
  TimeNs length = until == kNever ? kNever : (until > now ? until - now : 0);
  if (control_is_busy_) length = std::min(length, times::kTerm);
  // Something came meanwhile. The daemon must be heard under any load, so poll without waiting.
  if (how == Rest::kWatching && !watches) length = 0;
  // The thread that drives handles the deadlines then.
  if (parked) length = has_term ? term_ : times::kYieldTime;
  if (last_threads::is_first_gone()) length = std::min(length, times::kLastThreadsLook);
  const timespec timeout{static_cast<time_t>(length / 1'000'000'000u),
                         static_cast<long>(length % 1'000'000'000u)};
  const bool receives = how == Rest::kWatching;
  pollfd fds[6] = {{kick_.get(), POLLIN, 0},
                   {control_is_busy_ ? -1 : driven_.control_fd(), POLLIN, 0},
                   {receives ? driven_.receive_fd() : -1, POLLIN, 0},
                   {receives || how == Rest::kParked ? driven_.wake_fd() : -1, POLLIN, 0},
                   {receives ? driven_.further_fd() : -1, POLLIN, 0},
                   {driven_.descriptor_watch_fd(), 0, 0}};
  const int ready = ::ppoll(fds, std::size(fds), length == kNever ? nullptr : &timeout, nullptr);
  sleep_.awake();
  was_nudged_ = false;
  if (watches) driven_.end_wait();
  control_is_busy_ = false;
  if (stopping_.read() || ready <= 0) return;
  if ((fds[0].revents & POLLNVAL) != 0 || fds[5].revents != 0) {
    return driven_.on_descriptors_closed();
  }
  if (fds[0].revents != 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(kick_.get(), &count, sizeof count);
  }
  was_nudged_ = how == Rest::kParked && fds[3].revents != 0;
  if (was_nudged_) driven_.silence();
  if (fds[1].revents != 0) control_is_busy_ = !driven_.handle_control();
}

}  // namespace verbena::provider
