// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/link/pieces.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <limits>

#include "udp_constants.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/link/system_calls.hpp"
#include "verbena/link/uncancelled.hpp"

namespace verbena::link {
namespace {

constexpr std::size_t kMeasured = 4200;
constexpr int kTimes = 24;
// Pages must be faster by a thirty-second part.
constexpr std::uint64_t kMargin = 32;

// A socket of 127.0.0.1 that sends to itself.
class Loop {
 public:
  Loop() noexcept : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof here;
    auto* const address = reinterpret_cast<sockaddr*>(&here);
    is_good_ = fd_ >= 0 && ::bind(fd_, address, size) == 0 &&
               ::getsockname(fd_, address, &size) == 0 && ::connect(fd_, address, size) == 0;
  }
  ~Loop() {
    if (fd_ >= 0) ::close(fd_);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void keep_in_pages() noexcept {
    const int size = kUncut;
    is_good_ = is_good_ && ::setsockopt(fd_, SOL_UDP, UDP_SEGMENT, &size, sizeof size) == 0;
  }
  // There and back; 0: it did not come.
  std::uint64_t time() noexcept {
    const TimeNs before = monotonic_now_ns();
    const bool came = is_good_ && send_to(fd_, bytes_, 0, nullptr, 0) == kMeasured &&
                      receive_from(fd_, bytes_, 0, nullptr, nullptr) == kMeasured;
    return came ? monotonic_now_ns() - before : 0;
  }

 private:
  int fd_;
  bool is_good_ = false;
  std::array<std::uint8_t, kMeasured> bytes_{};
};

[[gnu::cold]] std::size_t measure() noexcept {
  const Uncancelled uncancelled;
  const int saved = errno;
  Loop piece;
  Loop pages;
  pages.keep_in_pages();
  std::uint64_t least_piece = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t least_pages = least_piece;
  for (int i = 0; i < kTimes; ++i) {
    least_piece = std::min(least_piece, piece.time());
    least_pages = std::min(least_pages, pages.time());
  }
  errno = saved;
  return in_one_piece_most(least_piece, least_pages);
}

}  // namespace

std::size_t in_one_piece_most() noexcept {
  // Two threads may both measure. None waits for another, which a forked child may not have.
  static std::atomic<std::size_t> known{0};
  std::size_t most = known.load(std::memory_order_relaxed);
  if (most == 0) known.store(most = measure(), std::memory_order_relaxed);
  return most;
}

std::size_t in_one_piece_most(std::uint64_t in_one_piece, std::uint64_t in_pages) noexcept {
  const bool are_pages_faster = in_pages != 0 && in_pages + in_pages / kMargin < in_one_piece;
  return are_pages_faster ? kInOnePieceLeast : kInOnePieceMost;
}

}  // namespace verbena::link
