// SPDX-License-Identifier: BSD-2-Clause
#include "real/fd_table.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstddef>

#include "real/real.hpp"
#include "real/section.hpp"

namespace verbena::preload::fd_table {
namespace {

constexpr std::size_t kPageEntries = 1024;
constexpr std::size_t kPages = 1024;  // a million descriptors, the usual hard limit

// Kind and inode share a word, so that both always belong to the same mark. The kind is in the top
// byte, the low 56 bits of the inode are below it.
struct Entry {
  std::atomic<std::uint64_t> word;
  std::atomic<std::uint64_t> identity;
};
using Page = std::array<Entry, kPageEntries>;

constinit std::array<std::atomic<Page*>, kPages> pages{};

// The kernel adds this flag to every open file. The C library's O_LARGEFILE is 0 here.
constexpr int kLargeFile = 0100000;

Entry* find(int fd) {
  const auto number = static_cast<std::size_t>(static_cast<unsigned>(fd));
  if (number >= kPageEntries * kPages) return nullptr;
  Page* page = pages[number / kPageEntries].load(std::memory_order_acquire);
  return page == nullptr ? nullptr : &(*page)[number % kPageEntries];
}

Entry* find_or_make(int fd) {
  const auto number = static_cast<std::size_t>(static_cast<unsigned>(fd));
  if (number >= kPageEntries * kPages) return nullptr;
  std::atomic<Page*>& slot = pages[number / kPageEntries];
  if (slot.load(std::memory_order_acquire) == nullptr) {
    // Zeroed memory is a page of empty entries.
    void* memory =
        ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    Page* expected = nullptr;
    if (!slot.compare_exchange_strong(expected, static_cast<Page*>(memory),
                                      std::memory_order_acq_rel)) {
      ::munmap(memory, sizeof(Page));
    }
  }
  return find(fd);
}

constexpr Kind kind_of(std::uint64_t word) { return static_cast<Kind>(word >> 56); }

// Returns 0 when the descriptor is not open.
std::uint64_t word_of(int fd, Kind kind) {
  struct stat st {};
  if (real::fstat(fd, &st) != 0) return 0;
  return (static_cast<std::uint64_t>(kind) << 56) | (st.st_ino & ((std::uint64_t{1} << 56) - 1));
}

}  // namespace

Kind noted(int fd) {
  const Entry* entry = find(fd);
  return entry == nullptr ? Kind::kNone : kind_of(entry->word.load(std::memory_order_relaxed));
}

Kind verified(int fd) {
  Entry* entry = find(fd);
  if (entry == nullptr) return Kind::kNone;
  std::uint64_t word = entry->word.load(std::memory_order_relaxed);
  const Kind kind = kind_of(word);
  if (kind == Kind::kNone) return kind;
  const Section section;
  if (word_of(fd, kind) == word) return kind;
  entry->word.compare_exchange_strong(word, 0, std::memory_order_relaxed);
  return Kind::kNone;
}

std::uint64_t identity(int fd) {
  const Entry* entry = find(fd);
  return entry == nullptr ? 0 : entry->identity.load(std::memory_order_relaxed);
}

constexpr int kSealFlags = O_APPEND | O_NOATIME;

bool is_sealed(int flags) { return (flags & ~kLargeFile) == (O_RDWR | kSealFlags); }

void mark(int fd, Kind kind, std::uint64_t identity) {
  const Section section;
  Entry* entry = kind == Kind::kNone ? find(fd) : find_or_make(fd);
  if (entry == nullptr) return;
  entry->identity.store(identity, std::memory_order_relaxed);
  entry->word.store(kind == Kind::kNone ? 0 : word_of(fd, kind), std::memory_order_relaxed);
}

void copy(int from, int to) {
  const Kind kind = verified(from);
  if (kind != Kind::kNone || noted(to) != Kind::kNone) mark(to, kind, identity(from));
}

}  // namespace verbena::preload::fd_table
