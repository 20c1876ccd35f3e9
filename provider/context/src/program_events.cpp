// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/program_events.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "verbena/base/standard_streams.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {

ProgramEvents::ProgramEvents(ibv_context& context) : context_(context) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0 || !beyond_streams(ends))
    refuse(errno, "ibv_open_device: no descriptors left");
  const control::UniqueFd written(ends[1]);
  if (const int error = pipe_.open(ends[0]); error != 0) {
    ::close(ends[0]);
    refuse(error, "ibv_open_device: no descriptors left");
  }
  context_.async_fd = ends[0];
  ::pthread_mutex_init(&no_wq_.mutex, nullptr);
  ::pthread_cond_init(&no_wq_.cond, nullptr);
  no_wq_.context = &context_;
  no_wq_.state = IBV_WQS_ERR;
}

void ProgramEvents::send(std::uint64_t element, std::uint32_t type,
                         std::atomic<std::uint32_t>* delivered) noexcept {
  follow_library();
  const AsynchronousEvent event{element, type, 0};
  if (pipe_.write(event) && delivered != nullptr) delivered->fetch_add(1);
}

void ProgramEvents::raise_of_work_queue() noexcept {
  send(reinterpret_cast<std::uintptr_t>(&no_wq_), IBV_EVENT_WQ_FATAL, nullptr);
}

void ProgramEvents::follow_library() noexcept {
  const int before = pipe_.read_end();
  if (context_.async_fd == before) return;
  const std::lock_guard guard(follow_lock_);
  if (has_followed_ || context_.async_fd == before) return;
  has_followed_ = true;
  pipe_.open(context_.async_fd);
  AsynchronousEvent event{};
  int unread = 0;
  while (::ioctl(before, FIONREAD, &unread) == 0 && unread >= static_cast<int>(sizeof event) &&
         ::read(before, &event, sizeof event) == static_cast<ssize_t>(sizeof event)) {
    pipe_.write(event);
  }
  ::close(before);
}

}  // namespace verbena::provider
