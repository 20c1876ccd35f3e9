// SPDX-License-Identifier: BSD-2-Clause
#include "calls/mappings.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "real/real.hpp"
#include "real/section.hpp"
#include "verbena/base/standard_streams.hpp"

namespace verbena::preload::mappings {
namespace {

constinit std::atomic<const control::MemoryGuard*> guard{nullptr};

constexpr std::uintptr_t kPage = 4096;

// The parts that we need of a line of /proc/self/maps: "begin-end rights offset device inode".
struct Line {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::uint64_t offset = 0;  // of the first byte in the file
  std::string_view file;     // device and inode
};

Line parse(std::string_view text) noexcept {
  Line line;
  const char* const last = text.data() + text.size();
  const auto begin = std::from_chars(text.data(), last, line.begin, 16);
  if (begin.ec != std::errc() || begin.ptr == last) return {};
  if (std::from_chars(begin.ptr + 1, last, line.end, 16).ec != std::errc()) return {};
  // The offset follows the second blank; the device and the inode lie between the third and the
  // fifth.
  std::size_t at = 0;
  for (int blank = 0; blank < 3 && at < text.size(); ++blank) {
    if (blank == 2) (void)std::from_chars(text.data() + at, last, line.offset, 16);
    at = text.find(' ', at) + 1;
  }
  const std::size_t end = text.find(' ', text.find(' ', at) + 1);
  line.file = text.substr(at, end - at);
  return line;
}

// Calls `use` with each line of a file until it returns false. Gives up at a line over 4096 bytes.
template <typename Use>
void for_each_line(int fd, Use&& use) noexcept {
  std::array<char, 4096> room;
  std::size_t used = 0;
  for (;;) {
    const ssize_t got = real::read(fd, room.data() + used, room.size() - used);
    if (got <= 0) return;
    used += static_cast<std::size_t>(got);
    std::string_view rest(room.data(), used);
    for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      if (!use(rest.substr(0, end))) return;
      rest.remove_prefix(end + 1);
    }
    if (rest.size() == room.size()) return;
    rest.copy(room.data(), rest.size());
    used = rest.size();
  }
}

}  // namespace

void watch(const control::MemoryGuard* wanted) noexcept {
  guard.store(wanted, std::memory_order_release);
}

bool are_watched() noexcept { return guard.load(std::memory_order_relaxed) != nullptr; }

void note_gone(const void* address, std::size_t length, const char* by) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::size_t whole = (length + kPage - 1) & ~(kPage - 1);
  if (whole == 0 || begin % kPage != 0 || begin + whole < begin) return;
  const int saved = errno;
  guard.load(std::memory_order_acquire)->withdraw(begin, whole, by);
  errno = saved;
}

std::size_t length_of(const void* address) noexcept {
  const Section section;
  const int fd = beyond_streams(real::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (fd < 0) return 0;
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  std::uintptr_t end = begin;
  std::array<char, 64> file;
  std::size_t file_length = 0;
  std::uint64_t offset = 0;
  for_each_line(fd, [&](std::string_view text) {
    const Line line = parse(text);
    if (line.end <= begin) return true;
    if (line.begin != end || line.file.size() > file.size()) return false;
    if (end == begin) {
      file_length = line.file.copy(file.data(), file.size());
      offset = line.offset;
    }
    // Another attachment of the same segment may follow, which begins at the segment's start again.
    if (line.offset != offset + (end - begin)) return false;
    if (line.file != std::string_view(file.data(), file_length)) return false;
    end = line.end;
    return true;
  });
  ::close(fd);
  return end - begin;
}

}  // namespace verbena::preload::mappings
