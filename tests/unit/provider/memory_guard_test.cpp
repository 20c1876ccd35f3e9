// SPDX-License-Identifier: BSD-2-Clause
// Memory that goes away while it is accessed: every guarded access reports it and goes on, and
// other accesses do not. This program stands in for the preload library.
#include "verbena/objects/memory_guard.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "verbena/base/guarded_copy.hpp"
#include "verbena/control/memory_guard.hpp"
#include "verbena/link/fault_link.hpp"
#include "verbena/link/shared_ring.hpp"
#include "verbena/memory/ordered_copy.hpp"
#include "verbena/objects/mapping_watch.hpp"
#include "verbena/wire/crc32.hpp"
#include "verbena/wire/packet.hpp"

namespace {

const verbena::control::MemoryGuard* offered = nullptr;

}  // namespace

extern "C" __attribute__((visibility("default"))) void verbena_offer_memory_guard(
    const verbena::control::MemoryGuard* guard) {
  offered = guard;
}

namespace verbena::provider {
namespace {

constexpr std::size_t kPage = 4096;

void on_signal(int number, siginfo_t*, void* context) {
  if (!offered->resume(context)) ::signal(number, SIG_DFL);
}

// Two pages between two that are not mapped.
class Guarded : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    guard_memory();
    ASSERT_NE(offered, nullptr);
    struct sigaction action {};
    action.sa_sigaction = &on_signal;
    action.sa_flags = SA_SIGINFO;
    for (std::size_t i = 0; i < 2; ++i)
      ::sigaction(i == 0 ? SIGSEGV : SIGBUS, &action, &before_[i]);
  }
  static void TearDownTestSuite() {
    for (std::size_t i = 0; i < 2; ++i)
      ::sigaction(i == 0 ? SIGSEGV : SIGBUS, &before_[i], nullptr);
  }
  void SetUp() override {
#if !defined(VERBENA_GUARDS)
    GTEST_SKIP() << "plain code faults as any other";
#endif
    base_ = static_cast<std::uint8_t*>(
        ::mmap(nullptr, 4 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(::mprotect(begin(), 2 * kPage, PROT_READ | PROT_WRITE), 0);
    std::iota(own_.begin(), own_.end(), std::uint8_t{1});
  }
  void TearDown() override {
    if (base_ != nullptr) ::munmap(base_, 4 * kPage);
  }
  std::uint8_t* begin() { return base_ + kPage; }
  std::uint8_t* end() { return base_ + 3 * kPage; }
  std::uint64_t* word_at(std::uint8_t* at) { return reinterpret_cast<std::uint64_t*>(at); }

  std::uint8_t* base_ = nullptr;
  std::array<std::uint8_t, 2 * kPage> own_{};

 private:
  static inline struct sigaction before_[2];
};

std::vector<std::size_t> lengths() {
  std::vector<std::size_t> all(300);
  std::iota(all.begin(), all.end(), std::size_t{1});
  for (const std::size_t length : {511, 512, 1000, 4096, 5000, 8192}) all.push_back(length);
  return all;
}

TEST_F(Guarded, ACopyFailsByOneByteAtEitherEndAndOnEitherSide) {
  for (const std::size_t n : lengths()) {
    SCOPED_TRACE(n);
    EXPECT_TRUE(guarded_copy(end() - n, own_.data(), n));
    EXPECT_EQ(std::memcmp(end() - n, own_.data(), n), 0);
    EXPECT_TRUE(guarded_copy(begin(), own_.data(), n));
    std::array<std::uint8_t, 2 * kPage> back{};
    EXPECT_TRUE(guarded_copy(back.data(), begin(), n));
    EXPECT_EQ(std::memcmp(back.data(), own_.data(), n), 0);
    EXPECT_FALSE(guarded_copy(end() - n + 1, own_.data(), n));
    EXPECT_FALSE(guarded_copy(begin() - 1, own_.data(), n));
    EXPECT_FALSE(guarded_copy(back.data(), end() - n + 1, n));
    EXPECT_FALSE(guarded_copy(back.data(), begin() - 1, n));
  }
  EXPECT_TRUE(guarded_copy(nullptr, nullptr, 0));
}

TEST_F(Guarded, EveryWayOfALongCopy) {
  for (const auto way : {&guarded_moves::by_vectors, &guarded_moves::by_string}) {
    for (std::size_t n = 128; n < 700; ++n) {
      SCOPED_TRACE(n);
      std::memset(begin(), 0, 2 * kPage);
      EXPECT_TRUE(way(end() - n, own_.data(), n));
      EXPECT_EQ(std::memcmp(end() - n, own_.data(), n), 0);
      EXPECT_EQ(end()[-static_cast<std::ptrdiff_t>(n) - 1], 0);
      EXPECT_FALSE(way(end() - n + 1, own_.data(), n));
      EXPECT_FALSE(way(own_.data(), begin() - 1, n));
    }
  }
}

TEST_F(Guarded, AnOrderedCopy) {
  for (const std::size_t n : lengths()) {
    SCOPED_TRACE(n);
    EXPECT_TRUE(memory::ordered_copy(end() - n, own_.data(), n));
    EXPECT_EQ(std::memcmp(end() - n, own_.data(), n), 0);
    EXPECT_FALSE(memory::ordered_copy(end() - n + 1, own_.data(), n));
    EXPECT_FALSE(memory::ordered_copy(begin() - 1, own_.data(), n));
  }
}

TEST_F(Guarded, Words) {
  std::uint64_t original = 77;
  EXPECT_FALSE(guarded_store(word_at(end()), std::uint64_t{1}));
  EXPECT_FALSE(guarded_store(reinterpret_cast<std::uint32_t*>(end()), std::uint32_t{1}));
  EXPECT_FALSE(guarded_store(reinterpret_cast<std::uint16_t*>(end()), std::uint16_t{1}));
  EXPECT_FALSE(guarded_store(end(), std::uint8_t{1}));
  EXPECT_FALSE(guarded_compare_swap(word_at(end()), 1, 2, &original));
  EXPECT_FALSE(guarded_fetch_add(word_at(end()), 1, &original));
  EXPECT_EQ(original, 77u);
  std::uint64_t* const word = word_at(begin());
  EXPECT_TRUE(guarded_store(word, std::uint64_t{40}));
  EXPECT_TRUE(guarded_fetch_add(word, 2, &original));
  EXPECT_EQ(original, 40u);
  EXPECT_TRUE(guarded_compare_swap(word, 41, 5, &original));
  EXPECT_EQ(original, 42u);
  EXPECT_TRUE(guarded_compare_swap(word, 42, 5, &original));
  EXPECT_EQ(*word, 5u);
  EXPECT_EQ(::mprotect(begin(), kPage, PROT_READ), 0);
  EXPECT_FALSE(guarded_store(word, std::uint64_t{1}));
  EXPECT_FALSE(guarded_fetch_add(word, 1, &original));
  EXPECT_EQ(*word, 5u);
}

TEST_F(Guarded, EveryChecksum) {
  for (std::size_t i = 0; i < wire::kCrc32Variants; ++i) {
    const wire::Crc32Variant& variant = wire::crc32_variants()[i];
    if (!variant.usable) continue;
    for (std::size_t n = 256; n <= 4096; n += 256) {
      SCOPED_TRACE(testing::Message() << variant.name << ' ' << n);
      std::uint32_t sum = 0;
      EXPECT_TRUE(variant.copy(own_.data(), end() - n, n, sum));
      EXPECT_FALSE(variant.copy(own_.data(), end() - n + 1, n, sum));
    }
  }
  std::uint32_t sum = 0;
  EXPECT_FALSE(wire::crc32_copy(own_.data(), end() - 99, 100, sum));
  EXPECT_TRUE(wire::crc32_copy(own_.data(), end() - 100, 100, sum));
}

TEST_F(Guarded, AFileThatWasCutOff) {
  const int file = static_cast<int>(::memfd_create("file", 0));
  ASSERT_EQ(::ftruncate(file, kPage), 0);
  void* const at = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ASSERT_NE(at, MAP_FAILED);
  EXPECT_TRUE(guarded_copy(at, own_.data(), 1000));
  ASSERT_EQ(::ftruncate(file, 0), 0);
  EXPECT_FALSE(guarded_copy(at, own_.data(), 1000));
  EXPECT_FALSE(guarded_copy(own_.data(), at, 8));
  ::munmap(at, kPage);
  ::close(file);
}

// Carries nothing.
class Nowhere final : public link::Link {
 public:
  std::size_t send(wire::TxBatch& batch, Qpn) noexcept override { return batch.size(); }
  std::size_t receive(link::RxSink&, std::size_t) noexcept override { return 0; }
};

// A borrowed payload is gone. The packet that arrives instead is one that every receiver drops, and
// the batch names it to the sender.
TEST_F(Guarded, ABorrowedPayload) {
  std::array<std::uint8_t, 4096> room{};
  wire::TxBatch batch(room);
  constexpr std::size_t kPayload = 1024;
  const auto make = [&] {
    batch.clear();
    wire::PacketHeaders headers;
    const auto opcode = static_cast<std::uint8_t>(wire::Opcode::kRcSendOnly);
    const std::size_t at = wire::write_headers(opcode, headers, batch.begin(2048));
    batch.commit(at + kPayload, {});
    batch.borrow(at, end() - kPayload + 1, kPayload);
  };
  make();
  const auto brought_in = batch.bytes_of(batch.packets()[0]);
  EXPECT_EQ(wire::parse_packet(brought_in).error(), DropReason::kBadVersion);
  EXPECT_EQ(brought_in.back(), 0);
  EXPECT_EQ(batch.first_gone(), batch.packets().data());
  make();
  EXPECT_EQ(batch.first_gone(), nullptr);
  const int file = link::SharedRing::create().value();
  link::RingWriter writer(link::SharedRing::map(file).value());
  link::RingReader reader(link::SharedRing::map(file).value());
  ::close(file);
  EXPECT_EQ(writer.put(batch, 0, 1), 1u);
  EXPECT_EQ(batch.first_gone(), batch.packets().data());
  wire::RxDatagram datagram;
  ASSERT_TRUE(reader.take(datagram));
  wire::PacketView packet;
  EXPECT_EQ(wire::parse_packet(datagram, packet), DropReason::kBadVersion);
  make();
  DropCounters drops;
  link::FaultLink faults(std::make_unique<Nowhere>(), 1, drops);
  link::FaultRule delays;
  delays.settings.delay_ns = 1'000'000;
  faults.set_rules({&delays, 1});
  EXPECT_EQ(faults.send(batch, Qpn(1)), 1u);
  EXPECT_EQ(batch.first_gone(), batch.packets().data());
}

TEST_F(Guarded, AFaultElsewhereIsSomebodyElses) {
  ucontext_t here{};
  ASSERT_EQ(::getcontext(&here), 0);
  EXPECT_FALSE(offered->resume(&here));
  EXPECT_EQ(guarded_resume_at(0), 0u);
  EXPECT_EXIT(*const_cast<volatile std::uint8_t*>(end()) = 1, testing::KilledBySignal(SIGSEGV), "");
}

// Every registry hears of unmapped memory, until its watch ends.
TEST(MappingWatches, HearOfWhatIsUnmapped) {
  static std::array<std::uint8_t, 64> bytes;
  guard_memory();
  memory::Registry registry(memory::trusting_memory_port());
  memory::RegionRequest request;
  request.host_address = request.base = reinterpret_cast<std::uintptr_t>(bytes.data());
  request.length = bytes.size();
  const std::uint32_t key = *registry.register_region(request);
  const auto reads = [&] {
    std::uint8_t byte = 0;
    auto pin = registry.pin({key, 0, request.base, 1, 0});
    return pin.ok() && pin->read(&byte, 0, 1);
  };
  {
    const MappingWatch watch(registry);
    offered->withdraw(request.host_address + 4096, 4096, "munmap");
    EXPECT_TRUE(reads());
  }
  offered->withdraw(request.host_address, 4096, "munmap");
  EXPECT_TRUE(reads());
  const MappingWatch watch(registry);
  offered->withdraw(request.host_address, 4096, "munmap");
  EXPECT_FALSE(reads());
}

}  // namespace
}  // namespace verbena::provider
