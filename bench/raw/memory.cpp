// SPDX-License-Identifier: BSD-2-Clause
#include <sys/mman.h>
#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "raw.hpp"
#include "verbena/base/lock.hpp"

namespace verbena::bench {
namespace {

constexpr int kRoundTripsPerSample = 20;

// One direction: slots, which a sequence number opens to the reader.
template <std::size_t slot_count, std::size_t slot_bytes = 4096>
struct RingOf {
  static constexpr std::size_t kSlots = slot_count;
  static constexpr std::size_t kBytes = slot_bytes;
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> sequence{0};
    unsigned char data[kBytes];  // eight bytes fit into the cache line of their sequence number
  };
  Slot slots[kSlots];
  alignas(64) std::atomic<std::uint64_t> taken{0};

  // The caller ensures room: a ping-pong has one message in flight, a stream reads `taken`.
  void put(std::uint64_t n, const unsigned char* data, std::size_t bytes) {
    Slot& slot = slots[n % kSlots];
    std::memcpy(slot.data, data, bytes);
    slot.sequence.store(n, std::memory_order_release);
  }
  void take(std::uint64_t n, unsigned char* data, std::size_t bytes) {
    Slot& slot = slots[n % kSlots];
    while (slot.sequence.load(std::memory_order_acquire) != n) cpu_relax();
    std::memcpy(data, slot.data, bytes);
  }
};

using Ring = RingOf<16>;
// This ring is as large as Verbena's.
using LargeRing = RingOf<256>;
// The slots are as long as the longest merged packets on Verbena's rings.
using LongRing = RingOf<16, 32 * 1024>;

template <typename T>
T* shared() {
  void* at = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) fail("mmap");
  return new (at) T;
}

// Keeps the compiler from finding out that the copies are never read.
void keep(const void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

double rate_mb_s(std::size_t bytes, TimeNs duration) {
  return static_cast<double>(bytes) * 1e3 / static_cast<double>(duration);
}

// Returns how many copies make a sample of some ten microseconds at least.
std::size_t copies_for(std::size_t bytes) { return std::max<std::size_t>(1, (1u << 20) / bytes); }

}  // namespace

Quantiles ring_hop_us(std::size_t bytes, double seconds) {
  struct Rings {
    Ring there;
    Ring back;
  };
  Rings& rings = *shared<Rings>();
  unsigned char data[Ring::kBytes] = {};
  bytes = std::min(bytes, Ring::kBytes);
  const Child echo([&] {
    for (std::uint64_t n = 1;; ++n) {
      rings.there.take(n, data, bytes);
      rings.back.put(n, data, bytes);
    }
  });
  std::vector<double> samples;
  std::uint64_t n = 0;
  const Deadline deadline(seconds);
  while (!deadline.passed()) {
    const TimeNs start = link::monotonic_now_ns();
    for (int i = 0; i < kRoundTripsPerSample; ++i) {
      ++n;
      rings.there.put(n, data, bytes);
      rings.back.take(n, data, bytes);
    }
    samples.push_back(static_cast<double>(link::monotonic_now_ns() - start) / 1e3 / 2 /
                      kRoundTripsPerSample);
  }
  return quantiles(std::move(samples));
}

namespace {

// Sends pieces of `bytes` one after the other from `memory` bytes, into as many on the other side.
template <typename SomeRing>
double stream_mb_s(std::size_t bytes, std::size_t memory, double seconds) {
  SomeRing& ring = *shared<SomeRing>();
  std::vector<unsigned char> data(memory, 1);
  const std::size_t pieces = memory / bytes;
  const auto piece = [&](std::uint64_t n) { return data.data() + n % pieces * bytes; };
  const Child reader([&] {
    std::memset(data.data(), 2, memory);  // the child gets pages of its own
    for (std::uint64_t n = 1;; ++n) {
      ring.take(n, piece(n), bytes);
      ring.taken.store(n, std::memory_order_release);
    }
  });
  constexpr std::uint64_t kMessagesPerSample = 4096;
  std::vector<double> samples;
  std::uint64_t n = 0;
  const Deadline deadline(seconds);
  while (!deadline.passed()) {
    const TimeNs start = link::monotonic_now_ns();
    for (std::uint64_t i = 0; i < kMessagesPerSample; ++i) {
      ++n;
      while (n > ring.taken.load(std::memory_order_acquire) + SomeRing::kSlots) cpu_relax();
      ring.put(n, piece(n), bytes);
    }
    samples.push_back(rate_mb_s(kMessagesPerSample * bytes, link::monotonic_now_ns() - start));
  }
  return quantiles(std::move(samples)).median;
}

}  // namespace

double ring_stream_mb_s(std::size_t bytes, double seconds) {
  if (bytes <= Ring::kBytes) return stream_mb_s<Ring>(bytes, bytes, seconds);
  bytes = std::min(bytes, LongRing::kBytes);
  return stream_mb_s<LongRing>(bytes, bytes, seconds);
}

double ring_buffers_mb_s(std::size_t buffers, double seconds) {
  constexpr std::size_t kBuffer = 8192;
  return stream_mb_s<LargeRing>(LargeRing::kBytes, buffers * kBuffer, seconds);
}

double memcpy_mb_s(std::size_t bytes, double seconds) {
  std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  const std::size_t copies = copies_for(bytes);
  std::vector<double> samples;
  const Deadline deadline(seconds);
  while (!deadline.passed()) {
    const TimeNs start = link::monotonic_now_ns();
    for (std::size_t i = 0; i < copies; ++i) {
      std::memcpy(to.data(), from.data(), bytes);
      keep(to.data());
    }
    samples.push_back(rate_mb_s(copies * bytes, link::monotonic_now_ns() - start));
  }
  return quantiles(std::move(samples)).median;
}

double process_vm_writev_mb_s(std::size_t bytes, double seconds) {
  std::vector<char> memory(bytes, 1);
  std::atomic<bool>& ready = *shared<std::atomic<bool>>();
  const Child other([&] {
    std::memset(memory.data(), 2, bytes);  // the child gets pages of its own
    keep(memory.data());
    ready.store(true);
    for (;;) ::pause();
  });
  while (!ready.load()) cpu_relax();
  const iovec here{memory.data(), bytes};
  const iovec there{memory.data(), bytes};
  const std::size_t copies = copies_for(bytes);
  std::vector<double> samples;
  const Deadline deadline(seconds);
  while (!deadline.passed()) {
    const TimeNs start = link::monotonic_now_ns();
    for (std::size_t i = 0; i < copies; ++i) {
      if (::process_vm_writev(other.pid(), &here, 1, &there, 1, 0) != static_cast<ssize_t>(bytes)) {
        return 0;
      }
    }
    samples.push_back(rate_mb_s(copies * bytes, link::monotonic_now_ns() - start));
  }
  return quantiles(std::move(samples)).median;
}

}  // namespace verbena::bench
