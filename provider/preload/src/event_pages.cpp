#include "event_pages.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <atomic>

#include "node.hpp"
#include "real.hpp"

namespace verbena::preload::event_pages {
namespace {

using control::CmEventPage;

struct Entry {
  std::atomic<std::uint64_t> channel{0};
  std::atomic<std::uint32_t> users{0};  // kLocked while the page is changed
  CmEventPage* page = nullptr;
  int fd = -1;
};

constexpr std::size_t kEntries = 1024;
constexpr std::size_t kTries = 4;
constexpr std::uint32_t kLocked = 1u << 31;

constinit std::array<Entry, kEntries> entries{};

Entry& place_of(std::uint64_t channel, std::size_t attempt) {
  return entries[(channel + attempt) % kEntries];
}

// Nobody uses it, and nobody will until `users` is 0 again.
bool lock(Entry& entry) {
  std::uint32_t none = 0;
  return entry.users.compare_exchange_strong(none, kLocked, std::memory_order_acquire);
}
void unlock(Entry& entry) { entry.users.fetch_sub(kLocked, std::memory_order_release); }

// A channel's page, which stays mapped for so long; none when it is not here.
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
  const std::optional<Node> node = node_of_fd(entry.fd);
  return !node || node->identity != channel;
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
  for (std::size_t attempt = 0; attempt < kTries; ++attempt) {
    Entry& entry = place_of(channel, attempt);
    if (!lock(entry)) continue;
    const std::uint64_t former = entry.channel.load(std::memory_order_relaxed);
    const bool usable = former == 0 || is_gone(entry, former);
    if (usable) {
      if (entry.page != nullptr) ::munmap(entry.page, sizeof *entry.page);
      entry.page = map(memory);
      entry.fd = fd;
      entry.channel.store(entry.page == nullptr ? 0 : channel, std::memory_order_relaxed);
    }
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
