// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/events/event_pipe.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>

#include "verbena/link/system_calls.hpp"

namespace verbena::provider {

int EventPipe::open(int fd) noexcept {
  read_end_ = fd;
  struct stat status {};
  if (::fstat(fd, &status) != 0) return errno;
  device_ = status.st_dev;
  pipe_ = status.st_ino;
  return write_end_.open(fd);
}

EventPipe::~EventPipe() {
  if (write_end_ && !is_end(write_end_.get())) write_end_.release();
  if (reader_ && !is_end(reader_.get())) reader_.release();
}

bool EventPipe::is_end(int fd) const noexcept {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && status.st_dev == device_ && status.st_ino == pipe_;
}

// An event that is held back goes at once if there is room again: the reader may have emptied the
// pipe before it could see that something is held back, and would wait for ever.
bool EventPipe::write(const void* record, std::size_t size) noexcept {
  const Guard guard(lock_);
  ssize_t written = -EAGAIN;
  if (!holds_any()) [[likely]] {
    written = write_end_.write(record, size);
    if (written == -EAGAIN && write_end_.grow()) written = write_end_.write(record, size);
    if (written < 0 && written != -EAGAIN) return false;
  }
  if (written < 0) {
    if (!hold(record, size)) return false;
    holds_any_.store(true, std::memory_order_relaxed);
    fill_locked();
  }
  written_.fetch_add(1, std::memory_order_release);
  return true;
}

bool EventPipe::hold(const void* record, std::size_t size) noexcept {
  const std::size_t most = write_end_.is_socket() ? size : Held::kSize;
  try {
    if (held_.empty() || held_.back().used + size > most) held_.emplace_back();
  } catch (const std::bad_alloc&) {
    return false;
  }
  Held& last = held_.back();
  std::memcpy(last.bytes.data() + last.used, record, size);
  last.used += size;
  return true;
}

void EventPipe::fill() noexcept {
  if (!holds_any()) return;
  const Guard guard(lock_);
  fill_locked();
}

void EventPipe::fill_locked() noexcept {
  while (!held_.empty()) {
    const Held& first = held_.front();
    if (write_end_.write(first.bytes.data(), first.used) == -EAGAIN) return;
    held_.pop_front();
  }
  holds_any_.store(false, std::memory_order_relaxed);
}

// Events that are held back belong to the parent. Its threads may have been at the list and the
// lock when they were copied.
void EventPipe::abandon() noexcept {
  std::construct_at(&lock_);
  std::construct_at(&held_);
  holds_any_.store(false, std::memory_order_relaxed);
  write_end_.reset();
  is_abandoned_.publish(true);
}

void EventPipe::lose_descriptors() noexcept {
  const Guard guard(lock_);
  lose_descriptors_locked();
}

void EventPipe::lose_descriptors_locked() noexcept {
  write_end_.release();
  is_abandoned_.publish(true);
}

EventPipe*& EventPipe::reading() noexcept {
  static thread_local EventPipe* current = nullptr;
  return current;
}

bool EventPipe::write(const CompletionEvent& event) noexcept {
  const bool is_next = reading() == this && !kept_ && !may_hold_any();
  if (!is_next) return write(&event, sizeof event);
  kept_ = event;
  return true;
}

void EventPipe::end_reading() noexcept {
  reading() = nullptr;
  if (kept_) write(&*kept_, sizeof *kept_);
  kept_.reset();
}

bool EventPipe::open_reader() noexcept {
  if (!reader_) reader_.reset(open_pipe_anew(read_end_, O_RDONLY));
  return static_cast<bool>(reader_);
}

ssize_t EventPipe::read(void* bytes, std::size_t size) noexcept {
  if (kept_) {
    std::memcpy(bytes, &*kept_, sizeof *kept_);
    kept_.reset();
    return sizeof(CompletionEvent);
  }
  if (!may_hold_any()) return 0;
  const std::uint32_t written = written_.load(std::memory_order_acquire);
  ssize_t got = link::read_bytes(reader_.get(), bytes, size);
  if (got < 0 && holds_any()) {
    fill();
    got = link::read_bytes(reader_.get(), bytes, size);
  }
  if (got > 0) {
    taken_ += static_cast<std::uint32_t>(static_cast<std::size_t>(got) / sizeof(CompletionEvent));
    return got;
  }
  taken_ = written;
  is_counted_ = true;
  return 0;
}

std::size_t EventPipe::unread(std::size_t size) noexcept {
  if (is_abandoned()) return 0;
  const Guard guard(lock_);
  std::size_t bytes = write_end_.size();
  for (const Held& held : held_) bytes += held.used;
  return bytes / size;
}

std::size_t EventPipe::withdraw(std::uint64_t object, std::size_t size) noexcept {
  if (is_abandoned()) return 0;
  const Guard guard(lock_);
  if (!is_end(write_end_.get())) {
    lose_descriptors_locked();
    return 0;
  }
  hold_written();
  const std::size_t withdrawn = withdraw_held(object, size);
  fill_locked();
  return withdrawn;
}

// What is held back already stays behind it.
void EventPipe::hold_written() noexcept {
  std::list<Held> written;
  Held part;
  for (;;) {
    const ssize_t got = write_end_.read(part.bytes.data(), part.bytes.size());
    if (got <= 0) break;
    part.used = static_cast<std::size_t>(got);
    written.push_back(part);
  }
  held_.splice(held_.begin(), written);
  holds_any_.store(true, std::memory_order_relaxed);
}

std::size_t EventPipe::withdraw_held(std::uint64_t object, std::size_t size) noexcept {
  std::size_t withdrawn = 0;
  for (auto part = held_.begin(); part != held_.end();) {
    std::size_t kept = 0;
    for (std::size_t at = 0; at < part->used; at += size) {
      std::uint64_t element = 0;
      std::memcpy(&element, part->bytes.data() + at, sizeof element);
      if (element == object) {
        ++withdrawn;
        continue;
      }
      std::memmove(part->bytes.data() + kept, part->bytes.data() + at, size);
      kept += size;
    }
    part->used = kept;
    part = kept == 0 ? held_.erase(part) : std::next(part);
  }
  return withdrawn;
}

}  // namespace verbena::provider
