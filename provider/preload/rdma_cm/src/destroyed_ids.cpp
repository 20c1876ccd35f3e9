// SPDX-License-Identifier: BSD-2-Clause
#include "rdma_cm/destroyed_ids.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>

#include "real/export.hpp"
#include "real/real.hpp"
#include "real/section.hpp"
#include "verbena/base/standard_streams.hpp"
#include "verbena/control/waiting_destroys.hpp"

namespace verbena::preload::destroyed_ids {
namespace {

// The last ID that a thread has destroyed. That thread writes the entry.
struct Entry {
  std::atomic<int> thread{0};
  std::atomic<std::uint64_t> address{0};
  std::atomic<std::uint32_t> events{0};
};

constexpr std::size_t kEntries = 64;
// librdmacm allocates some 600 bytes for an ID.
constexpr std::uint64_t kBytesOfId = 1024;

constinit std::array<Entry, kEntries> entries{};

// Returns whether the thread sleeps on a futex in the memory of the ID. The kernel shows the number
// of a sleeping thread's system call and its arguments ("202 0x7f..."), and a process may always
// read that of its own threads.
bool waits(const Entry& entry) noexcept {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/syscall",
                entry.thread.load(std::memory_order_acquire));
  const int fd = beyond_streams(real::open(path, O_RDONLY | O_CLOEXEC));
  if (fd < 0) return false;
  char text[256];
  const ssize_t size = real::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (size <= 0) return false;
  text[size] = '\0';
  long call = 0;
  unsigned long long word = 0;
  if (std::sscanf(text, "%ld 0x%llx", &call, &word) != 2 || call != SYS_futex) return false;
  const std::uint64_t begin = entry.address.load(std::memory_order_relaxed);
  return word >= begin && word - begin < kBytesOfId;
}

// Returns the thread's own entry, a free one, or one of a thread that does not wait. Returns null
// if the threads of all entries wait.
Entry* entry_of(int thread) noexcept {
  for (Entry& entry : entries) {
    if (entry.thread.load(std::memory_order_relaxed) == thread) return &entry;
  }
  for (Entry& entry : entries) {
    int other = entry.thread.load(std::memory_order_relaxed);
    if (other != 0 && waits(entry)) continue;
    if (entry.thread.compare_exchange_strong(other, thread, std::memory_order_acq_rel)) {
      return &entry;
    }
  }
  return nullptr;
}

}  // namespace

void note(std::uint64_t address, std::uint32_t events) noexcept {
  Entry* const entry = entry_of(static_cast<int>(::syscall(SYS_gettid)));
  if (entry == nullptr) return;
  entry->address.store(address, std::memory_order_relaxed);
  entry->events.store(events, std::memory_order_relaxed);
}

}  // namespace verbena::preload::destroyed_ids

using namespace verbena::preload;

VERBENA_EXPORT std::size_t verbena_find_waiting_destroys(std::uint32_t* events, std::size_t room) {
  const Section section;
  std::size_t count = 0;
  for (const destroyed_ids::Entry& entry : destroyed_ids::entries) {
    if (count == room) break;
    const bool is_used = entry.thread.load(std::memory_order_relaxed) != 0;
    if (is_used && destroyed_ids::waits(entry)) {
      events[count++] = entry.events.load(std::memory_order_relaxed);
    }
  }
  return count;
}
