// SPDX-License-Identifier: BSD-2-Clause
// The system as the product's code finds it here. The linker redirects its calls to these functions
// (--wrap, CMakeLists.txt). Calls that do not concern virtual threads and descriptors go to the C
// library.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <map>

#include "machine.hpp"
#include "verbena/link/system_calls.hpp"
#include "verbena/progress/last_threads.hpp"
#include "verbena/report/thread_guard.hpp"

using verbena::kNever;
using verbena::TimeNs;
using verbena::threads::Awaited;
using verbena::threads::Machine;
using verbena::threads::Thread;

namespace verbena {
namespace link {

ssize_t write_bytes(int fd, const void* bytes, std::size_t size) noexcept {
  Machine& machine = *Machine::here();
  std::uint64_t count = 0;
  if (size != sizeof count) return -EINVAL;
  std::memcpy(&count, bytes, sizeof count);
  machine.call(500);
  if (machine.options().has_kicks) machine.add_to(fd, count);
  return static_cast<ssize_t>(size);
}

}  // namespace link

namespace provider {

bool guard_this_thread() noexcept { return true; }

// The first thread of a simulated program never ends before the others.
namespace last_threads {
void note_begun() noexcept {}
void note_ended() noexcept {}
bool is_first_gone() noexcept { return false; }
void end_process_if_alone() noexcept {}
}  // namespace last_threads

}  // namespace provider
}  // namespace verbena

namespace {

TimeNs from(const timespec& time) {
  return static_cast<TimeNs>(time.tv_sec) * 1'000'000'000u + static_cast<TimeNs>(time.tv_nsec);
}

std::map<pthread_t, Thread*>& threads_by_handle() {
  static std::map<pthread_t, Thread*> all;
  return all;
}

std::uint32_t& processors_of_next_thread() {
  static std::uint32_t processors = ~0u;
  return processors;
}

}  // namespace

namespace verbena::threads {

// A thread that the product makes inherits these processors, as if from its creator.
void set_processors_of_next_thread(std::uint32_t processors) {
  processors_of_next_thread() = processors;
}

Thread& thread_made_last() { return *threads_by_handle().rbegin()->second; }

}  // namespace verbena::threads

extern "C" {

ssize_t __real_read(int fd, void* bytes, size_t size);
int __real_close(int fd);
int __real_clock_gettime(clockid_t id, timespec* time);

int __wrap_ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t*) {
  std::array<Awaited, 8> awaited;
  if (count > awaited.size()) return -1;
  for (nfds_t i = 0; i < count; ++i) awaited[i].fd = fds[i].fd;
  const int ready = Machine::here()->wait(std::span(awaited).first(count),
                                          timeout == nullptr ? kNever : from(*timeout));
  for (nfds_t i = 0; i < count; ++i) {
    fds[i].revents = static_cast<short>(awaited[i].is_ready ? POLLIN : 0);
  }
  return ready;
}

ssize_t __wrap_read(int fd, void* bytes, size_t size) {
  Machine* machine = Machine::here();
  if (machine == nullptr || !machine->is_own(fd)) return __real_read(fd, bytes, size);
  machine->call(400);
  const std::uint64_t count = machine->take_all_from(fd);
  if (count == 0) {
    errno = EAGAIN;
    return -1;
  }
  std::memcpy(bytes, &count, sizeof count);
  return sizeof count;
}

int __wrap_close(int fd) {
  Machine* machine = Machine::here();
  return machine != nullptr && machine->is_own(fd) ? 0 : __real_close(fd);
}

int __wrap_eventfd(unsigned, int) { return Machine::here()->open(Machine::Kind::kCounter); }

int __wrap_clock_gettime(clockid_t id, timespec* time) {
  Machine* machine = Machine::here();
  if (machine == nullptr) return __real_clock_gettime(id, time);
  machine->step(22);
  const TimeNs now = machine->read_clock();
  time->tv_sec = static_cast<time_t>(now / 1'000'000'000u);
  time->tv_nsec = static_cast<long>(now % 1'000'000'000u);
  return 0;
}

int __wrap_prctl(int option, ...) {
  va_list arguments;
  va_start(arguments, option);
  const unsigned long value = va_arg(arguments, unsigned long);
  va_end(arguments);
  Machine& machine = *Machine::here();
  if (option == PR_SET_TIMERSLACK) machine.running()->slack = value;
  machine.call(200);
  return 0;
}

// A thread that is made need not block signals, which this machine does not have.
long __wrap_syscall(long, ...) {
  errno = ENOSYS;
  return -1;
}

int __wrap_sched_yield() {
  Machine::here()->yield();
  return 0;
}

// The count goes up for the caller if it has lost its processor since its last call. All threads
// share one count, because the product keeps the last value for each real thread, and there is one.
int __wrap_getrusage(__rusage_who, rusage* usage) {
  static long switches = 0;
  Thread& self = *Machine::here()->running();
  if (self.preemptions != self.preemptions_seen) ++switches;
  self.preemptions_seen = self.preemptions;
  usage->ru_nivcsw = switches;
  return 0;
}

int __wrap_pthread_create(pthread_t* handle, const pthread_attr_t*, void* (*body)(void*),
                          void* argument) {
  auto& all = threads_by_handle();
  *handle = all.empty() ? 1 : all.rbegin()->first + 1;
  Thread& made = Machine::here()->spawn("progress", processors_of_next_thread(),
                                        [body, argument] { body(argument); });
  made.stalls = true;
  all[*handle] = &made;
  return 0;
}

// Only the test's main function waits for a thread.
int __wrap_pthread_join(pthread_t handle, void**) {
  auto& all = threads_by_handle();
  Machine::here()->run_until_ended(*all.at(handle));
  all.erase(handle);
  return 0;
}

int __wrap_pthread_setname_np(pthread_t, const char*) { return 0; }
int __wrap_pthread_sigmask(int, const sigset_t*, sigset_t*) { return 0; }

}  // extern "C"
