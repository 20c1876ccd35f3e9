// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/link/capture_ring.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "verbena/base/standard_streams.hpp"
#include "verbena/wire/sizes.hpp"

namespace verbena::link {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kCapacityMin = 64 * 1024;
constexpr std::size_t kCapacityMax = 1u << 30;
constexpr std::uint64_t kAnewAfter = 256 * 1024;
constexpr std::uint64_t kWhat = 0x3150414342525656;  // "VVRBCAP1"
// Neither side may shrink the memory under the other (SIGBUS) or add seals of its own.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

static_assert(std::is_trivially_copyable_v<CaptureRecord>);

constexpr std::uint64_t size_of_record(std::uint64_t kept) {
  return (sizeof(CaptureRecord) + kept + 7) / 8 * 8;
}

Failure<SocketError> ring_failure(int error, const char* doing) {
  return Failure{SocketError{
      error, std::string(doing) + " the buffer of a capture failed: " + std::strerror(error)}};
}

}  // namespace

struct CaptureRing::Header {
  std::uint64_t what;
  // Written by the writer.
  alignas(kLine) std::atomic<std::uint64_t> head;
  std::atomic<std::uint64_t> base;
  std::atomic<std::uint64_t> recorded;
  std::atomic<std::uint64_t> dropped;
  std::atomic<std::uint32_t> activity;
  // Written by the reader.
  alignas(kLine) std::atomic<std::uint64_t> tail;
};

Result<int, SocketError> CaptureRing::create(std::size_t capacity) {
  if (!std::has_single_bit(capacity) || capacity < kCapacityMin || capacity > kCapacityMax) {
    return ring_failure(EINVAL, "creating");
  }
  const int fd = beyond_streams(::memfd_create("verbena-capture", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd < 0) return ring_failure(errno, "creating");
  const bool ok = ::ftruncate(fd, static_cast<off_t>(kPage + capacity)) == 0 &&
                  ::pwrite(fd, &kWhat, sizeof kWhat, 0) == sizeof kWhat &&
                  ::fcntl(fd, F_ADD_SEALS, kSeals) == 0;
  if (ok) return fd;
  const int error = errno;
  ::close(fd);
  return ring_failure(error, "creating");
}

Result<CaptureRing, SocketError> CaptureRing::map(int fd) {
  struct stat status {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || ::fstat(fd, &status) < 0) return ring_failure(errno, "mapping");
  const auto size = static_cast<std::size_t>(status.st_size);
  if ((seals & kSeals) != kSeals || size < kPage + kCapacityMin || size > kPage + kCapacityMax ||
      !std::has_single_bit(size - kPage)) {
    return ring_failure(EINVAL, "mapping");
  }
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return ring_failure(errno, "mapping");
  CaptureRing ring(memory, size - kPage);
  if (ring.header().what != kWhat) return ring_failure(EINVAL, "mapping");
  return ring;
}

CaptureRing::CaptureRing(CaptureRing&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), capacity_(other.capacity_) {}

CaptureRing& CaptureRing::operator=(CaptureRing&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

CaptureRing::~CaptureRing() {
  if (memory_ != nullptr) ::munmap(memory_, kPage + capacity_);
}

CaptureRing::Header& CaptureRing::header() const { return *static_cast<Header*>(memory_); }

void CaptureRing::copy_in(std::uint64_t begin, const void* from, std::size_t size) const {
  auto* const records = static_cast<std::uint8_t*>(memory_) + kPage;
  const std::size_t at = begin & (capacity_ - 1);
  const std::size_t first = std::min(size, capacity_ - at);
  std::memcpy(records + at, from, first);
  std::memcpy(records, static_cast<const std::uint8_t*>(from) + first, size - first);
}

void CaptureRing::copy_out(std::uint64_t begin, void* to, std::size_t size) const {
  const auto* const records = static_cast<const std::uint8_t*>(memory_) + kPage;
  const std::size_t at = begin & (capacity_ - 1);
  const std::size_t first = std::min(size, capacity_ - at);
  std::memcpy(to, records + at, first);
  std::memcpy(static_cast<std::uint8_t*>(to) + first, records, size - first);
}

// This fence stands between this store and the writer's look at the clock, the reader's between its
// look at the clock and its look at this word: one of the two sees the other.
void CaptureWriter::begin() noexcept {
  ring_.header().activity.store(++activity_, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void CaptureWriter::end() noexcept {
  ring_.header().activity.store(++activity_, std::memory_order_release);
}

void CaptureWriter::put(const CaptureRecord& record, const std::uint8_t* packet) noexcept {
  CaptureRing::Header& header = ring_.header();
  const std::uint64_t size = size_of_record(record.kept);
  const auto count = [](std::atomic<std::uint64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  };
  if (!has_room(size)) return count(header.dropped);
  if (head_ - base_ >= kAnewAfter) begin_anew_if_empty();
  ring_.copy_in(head_ - base_, &record, sizeof record);
  ring_.copy_in(head_ - base_ + sizeof record, packet, record.kept);
  head_ += size;
  count(header.recorded);
  header.head.store(head_, std::memory_order_release);
}

// If the reader keeps up, the same few pages are used again and again, and stay in the caches.
void CaptureWriter::begin_anew_if_empty() noexcept {
  if (ring_.header().tail.load(std::memory_order_acquire) != head_) return;
  tail_seen_ = base_ = head_;
  ring_.header().base.store(base_, std::memory_order_relaxed);
}

bool CaptureWriter::has_room(std::uint64_t size) noexcept {
  if (head_ + size - tail_seen_ <= ring_.capacity_) return true;
  const std::uint64_t tail = ring_.header().tail.load(std::memory_order_acquire);
  if (tail < tail_seen_ || tail > head_) return false;  // the reader breaks the rules
  tail_seen_ = tail;
  return head_ + size - tail_seen_ <= ring_.capacity_;
}

std::uint32_t CaptureReader::activity() const noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return ring_.header().activity.load(std::memory_order_acquire);
}

const CaptureRecord* CaptureReader::front() noexcept {
  if (front_) return &*front_;
  if (is_broken_) return nullptr;
  const std::uint64_t there = ring_.header().head.load(std::memory_order_acquire) - tail_;
  if (there == 0) return nullptr;
  CaptureRecord record;
  is_broken_ = there < sizeof record || there > ring_.capacity_;
  if (is_broken_) return nullptr;
  base_ = ring_.header().base.load(std::memory_order_relaxed);
  ring_.copy_out(tail_ - base_, &record, sizeof record);
  using Direction = CaptureRecord::Direction;
  is_broken_ =
      record.kept > wire::kMaxPacket || size_of_record(record.kept) > there ||
      record.length < record.kept || record.fate > CaptureRecord::Fate::kWithheld ||
      (record.direction != Direction::kInbound && record.direction != Direction::kOutbound);
  if (is_broken_) return nullptr;
  return &front_.emplace(record);
}

void CaptureReader::copy_packet(std::uint8_t* room) const noexcept {
  ring_.copy_out(tail_ - base_ + sizeof(CaptureRecord), room, front_->kept);
}

void CaptureReader::pop() noexcept {
  tail_ += size_of_record(front_->kept);
  front_.reset();
  ring_.header().tail.store(tail_, std::memory_order_release);
}

std::uint64_t CaptureReader::recorded() const noexcept {
  return ring_.header().recorded.load(std::memory_order_relaxed);
}

std::uint64_t CaptureReader::dropped() const noexcept {
  return ring_.header().dropped.load(std::memory_order_relaxed);
}

}  // namespace verbena::link
