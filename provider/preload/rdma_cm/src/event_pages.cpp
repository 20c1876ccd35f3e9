// SPDX-License-Identifier: BSD-2-Clause
#include "rdma_cm/event_pages.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <atomic>

#include "nodes/node.hpp"
#include "real/real.hpp"

namespace verbena::preload::event_pages {
namespace {

using control::CmEventPage;

struct Entry {
  std::atomic<std::uint64_t> channel{0};
  std::atomic<std::uint32_t> users{0};  // kLocked while the entry is changed
  CmEventPage* page = nullptr;
  std::atomic<int> fd{-1};
};

constexpr std::size_t kEntries = 1024;
constexpr std::size_t kTries = 4;
constexpr std::size_t kAskedAtOnce = 16;
constexpr std::uint32_t kLocked = 1u << 31;

constinit std::array<Entry, kEntries> entries{};
constinit std::atomic<std::size_t> asked_next{0};

Entry& place_of(std::uint64_t channel, std::size_t attempt) {
  return entries[(channel + attempt) % kEntries];
}

// Succeeds if the entry has no users. The entry gets no users until it is unlocked.
bool lock(Entry& entry) {
  std::uint32_t none = 0;
  return entry.users.compare_exchange_strong(none, kLocked, std::memory_order_acquire);
}
void unlock(Entry& entry) { entry.users.fetch_sub(kLocked, std::memory_order_release); }

// A channel's page, which stays mapped while this object lives, or none when the channel is not
// here.
class UsedPage {
 public:
  explicit UsedPage(std::uint64_t channel) {
    for (std::size_t attempt = 0; attempt < kTries && entry_ == nullptr; ++attempt) {
      Entry& entry = place_of(channel, attempt);
      if (entry.channel.load(std::memory_order_relaxed) == channel) entry_ = &entry;
    }
    if (entry_ == nullptr) return;
    const bool is_mine = (entry_->users.fetch_add(1, std::memory_order_acquire) & kLocked) == 0 &&
                         entry_->channel.load(std::memory_order_relaxed) == channel;
    if (is_mine) page_ = entry_->page;
  }
  ~UsedPage() {
    if (entry_ != nullptr) entry_->users.fetch_sub(1, std::memory_order_release);
  }
  UsedPage(const UsedPage&) = delete;
  UsedPage& operator=(const UsedPage&) = delete;

  explicit operator bool() const { return page_ != nullptr; }
  CmEventPage& operator*() const { return *page_; }

 private:
  Entry* entry_ = nullptr;
  CmEventPage* page_ = nullptr;
};

bool is_gone(const Entry& entry, std::uint64_t channel) {
  const std::optional<Node> node = node_of_fd(entry.fd.load(std::memory_order_relaxed));
  return !node || node->identity != channel;
}

// The caller has locked the entry.
void replace(Entry& entry, std::uint64_t channel, int fd, CmEventPage* page) {
  if (entry.page != nullptr) ::munmap(entry.page, sizeof *entry.page);
  entry.page = page;
  entry.fd.store(fd, std::memory_order_relaxed);
  entry.channel.store(page == nullptr ? 0 : channel, std::memory_order_relaxed);
}

// Frees the entry if its channel is closed.
void give_up(Entry& entry) {
  if (!lock(entry)) return;
  const std::uint64_t channel = entry.channel.load(std::memory_order_relaxed);
  if (channel != 0 && is_gone(entry, channel)) replace(entry, 0, -1, nullptr);
  unlock(entry);
}

// Frees entries of closed channels. Nothing reports that a descriptor was closed, so each opening
// of a channel checks other entries: those with the same descriptor number, which are closed, and a
// few more that may be.
void give_up_others(int fd) {
  std::size_t left = kAskedAtOnce;
  const std::size_t first = asked_next.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < kEntries; ++i) {
    Entry& entry = entries[(first + i) % kEntries];
    if (entry.channel.load(std::memory_order_relaxed) == 0) continue;
    const bool had_its_number = entry.fd.load(std::memory_order_relaxed) == fd;
    if (!had_its_number && left == 0) continue;
    if (!had_its_number && --left == 0) {
      asked_next.store((first + i + 1) % kEntries, std::memory_order_relaxed);
    }
    give_up(entry);
  }
}

CmEventPage* map(const control::UniqueFd& memory) {
  struct stat st {};
  if (!memory || real::fstat(memory.get(), &st) != 0 ||
      st.st_size < static_cast<off_t>(sizeof(CmEventPage))) {
    return nullptr;
  }
  void* at =
      ::mmap(nullptr, sizeof(CmEventPage), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  return at == MAP_FAILED ? nullptr : static_cast<CmEventPage*>(at);
}

}  // namespace

void adopt(std::uint64_t channel, int fd, const control::UniqueFd& memory) {
  give_up_others(fd);
  for (std::size_t attempt = 0; attempt < kTries; ++attempt) {
    Entry& entry = place_of(channel, attempt);
    if (!lock(entry)) continue;
    const std::uint64_t former = entry.channel.load(std::memory_order_relaxed);
    const bool usable = former == 0 || is_gone(entry, former);
    if (usable) replace(entry, channel, fd, map(memory));
    unlock(entry);
    if (usable) return;
  }
}

bool take(std::uint64_t channel, bool holds_message, control::CmEventCopy& out) {
  const UsedPage page(channel);
  return page && control::take_cm_event(*page, holds_message, out);
}

std::optional<std::uint32_t> version(std::uint64_t channel, std::uint32_t id) {
  const UsedPage page(channel);
  if (!page) return std::nullopt;
  return control::version_of(*page, id);
}

bool outdate(std::uint64_t channel, std::uint32_t id, std::uint32_t version) {
  const UsedPage page(channel);
  return page && control::outdate_answers(*page, id, version);
}

}  // namespace verbena::preload::event_pages
