// SPDX-License-Identifier: BSD-2-Clause
#include <atomic>
#include <thread>

#include "fixture.hpp"

namespace verbena::memory {
namespace {

using namespace testing;  // the shared names of these tests

// Once `deregister` has returned, no peer writes to the memory any more. The owner proves it: it
// reads and writes the memory itself without any synchronisation, and ThreadSanitizer reports an
// access that is still under way.
TEST_F(RegistryTest, NobodyIsInsideARegionThatWasDeregistered) {
  constexpr int kRounds = 100;
  constexpr int kPeers = 3;
  Published<std::uint32_t> key{0};
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> granted{0};
  std::vector<std::thread> peers;
  for (int p = 0; p < kPeers; ++p) {
    peers.emplace_back([&, p] {
      std::uint64_t mine = 0;
      const std::uint64_t at = address(static_cast<std::size_t>(64 * p));
      while (!done.load(std::memory_order_acquire)) {
        auto access = registry_.pin({key.read(), kDomain, at, 64, kRemoteWrite, kAnyQp});
        if (!access.ok()) {
          EXPECT_EQ(access.error(), Refusal::kNoSuchKey);
          std::this_thread::yield();
          continue;
        }
        ++mine;
        EXPECT_TRUE(access->write(56, &mine, sizeof mine));
        granted.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  for (int i = 0; i < kRounds; ++i) {
    std::memset(buffer_, 0, sizeof buffer_);
    key.publish(add(kFull));
    const std::uint64_t before = granted.load();
    while (granted.load() < before + 2) std::this_thread::yield();
    ASSERT_TRUE(registry_.deregister(key.read()).ok());
    for (std::size_t b = 0; b < 56; ++b) ASSERT_EQ(buffer_[b], 0);
  }
  done.store(true, std::memory_order_release);
  for (std::thread& t : peers) t.join();
}

TEST_F(RegistryTest, NobodyIsInsideAWindowThatWasUnbound) {
  constexpr int kRounds = 100;
  const std::uint32_t region = add(kLocalWrite | kWindowBind);
  const std::uint32_t window = add_window(true);
  Published<std::uint32_t> key{window};
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> granted{0};
  std::thread peer([&] {
    while (!done.load(std::memory_order_acquire)) {
      auto access = registry_.pin({key.read(), kDomain, address(0), 8, kRemoteWrite, 5});
      if (!access.ok()) {
        std::this_thread::yield();
        continue;
      }
      const std::uint64_t value = granted.fetch_add(1, std::memory_order_relaxed);
      EXPECT_TRUE(access->write(0, &value, sizeof value));
    }
  });
  for (std::uint32_t i = 0; i < kRounds; ++i) {
    const std::uint32_t next = (window & ~0xffu) | (i & 0xff);
    const WindowBind bind{region, address(0), 64, kRemoteWrite};
    ASSERT_TRUE(registry_.bind_type2(window, next, kDomain, 5, bind).ok());
    key.publish(next);
    const std::uint64_t before = granted.load();
    while (granted.load() < before + 1) std::this_thread::yield();
    ASSERT_TRUE(registry_.invalidate(next, kDomain, 5).ok());
    std::memset(buffer_, 0, 8);
  }
  done.store(true, std::memory_order_release);
  peer.join();
}

// A change is one step: an access sees the old region or the new one, never a mixture.
TEST_F(RegistryTest, AChangeIsSeenWhollyOrNotAtAll) {
  alignas(64) static std::uint8_t other[4096];
  const std::uint32_t key = add(kFull);
  std::atomic<bool> done{false};
  std::thread peer([&] {
    const std::uint64_t old_place = address(0);
    while (!done.load(std::memory_order_acquire)) {
      auto first = registry_.pin({key, kDomain, old_place, 4096, kRemoteRead, kAnyQp});
      if (first.ok()) {
        EXPECT_EQ(first->direct(), buffer_);
      }
      first = registry_.pin({key, kOtherDomain, 0, 1024, kRemoteRead, kAnyQp});
      if (first.ok()) {
        EXPECT_EQ(first->direct(), other);
      }
    }
  });
  Registry::Change to_other;
  to_other.translation = to_other.domain = to_other.access = true;
  to_other.to.host_address = reinterpret_cast<std::uintptr_t>(other);
  to_other.to.length = 1024;
  to_other.to.domain = kOtherDomain;
  to_other.to.access = kFull | kZeroBased;
  Registry::Change back = to_other;
  back.to = request(kFull);
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(registry_.change_region(key, to_other).ok());
    ASSERT_TRUE(registry_.change_region(key, back).ok());
  }
  done.store(true, std::memory_order_release);
  peer.join();
}

TEST_F(RegistryTest, ManyThreadsRegisterAtOnceAndKeysAreTheirOwn) {
  constexpr int kThreads = 4;
  constexpr int kEach = 800;
  std::vector<std::thread> threads;
  std::vector<std::uint32_t> kept[kThreads];
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      RegionRequest r = request(kFull);
      r.domain = static_cast<DomainId>(100 + t);
      for (int i = 0; i < kEach; ++i) {
        auto key = registry_.register_region(r);
        ASSERT_TRUE(key.ok());
        EXPECT_TRUE(registry_.pin({*key, r.domain, r.base, 8, kRemoteRead, kAnyQp}).ok());
        if (i % 4 == 0) {
          kept[t].push_back(*key);
        } else {
          EXPECT_TRUE(registry_.deregister(*key).ok());
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (int t = 0; t < kThreads; ++t) {
    const auto domain = static_cast<DomainId>(100 + t);
    for (const std::uint32_t key : kept[t]) {
      EXPECT_TRUE(registry_.pin({key, domain, address(0), 8, kRemoteRead, kAnyQp}).ok());
    }
  }
}

// After memory was withdrawn while peers used it, its next owner finds no peer there.
TEST_F(RegistryTest, NobodyIsAtMemoryThatWasWithdrawn) {
  constexpr int kRounds = 100;
  std::atomic<bool> done{false};
  Published<std::uint32_t> key{0};
  std::vector<std::thread> peers;
  for (int p = 0; p < 3; ++p) {
    peers.emplace_back([&, p] {
      const std::uint64_t at = address(static_cast<std::size_t>(64 * p));
      std::uint64_t mine = 0;
      while (!done.load(std::memory_order_acquire)) {
        auto access = registry_.pin({key.read(), kDomain, at, 64, kRemoteWrite, kAnyQp});
        if (access.ok()) (void)access->write(56, &mine, sizeof mine);
        ++mine;
      }
    });
  }
  for (int i = 0; i < kRounds; ++i) {
    std::memset(buffer_, 0, sizeof buffer_);
    const std::uint32_t mine = add(kFull);
    key.publish(mine);
    std::this_thread::yield();
    registry_.withdraw(address(0), sizeof buffer_, "a test");
    std::memset(buffer_, i, sizeof buffer_);
    std::this_thread::yield();
    for (const std::uint8_t byte : buffer_) ASSERT_EQ(byte, static_cast<std::uint8_t>(i));
    EXPECT_TRUE(registry_.deregister(mine).ok());
  }
  done.store(true, std::memory_order_release);
  for (std::thread& peer : peers) peer.join();
}

// A part of a region may be unmapped while a window is bound to it or while it is described.
TEST_F(RegistryTest, MemoryIsWithdrawnWhileWindowsAreBound) {
  constexpr std::uint32_t kRounds = 2000;
  const std::uint32_t region = add(kFull);
  const std::uint32_t window = add_window(true);
  std::atomic<bool> done{false};
  std::thread taker([&] {
    while (!done.load(std::memory_order_acquire)) registry_.withdraw(address(2048), 64, "a test");
  });
  for (std::uint32_t i = 0; i < kRounds; ++i) {
    const std::uint32_t next = (window & ~0xffu) | (i & 0xff);
    const WindowBind bind{region, address(0), sizeof buffer_, kRemoteWrite};
    ASSERT_TRUE(registry_.bind_type2(window, next, kDomain, 5, bind).ok());
    ASSERT_TRUE(registry_.invalidate(next, kDomain, 5).ok());
    Registry::Change change;
    change.access = true;
    change.to.access = kFull;
    ASSERT_TRUE(registry_.change_region(region, change).ok());
  }
  done.store(true, std::memory_order_release);
  taker.join();
  const std::uint64_t word = 1;
  registry_.withdraw(address(2048), 64, "a test");
  const auto access = pin(region, address(0), sizeof buffer_, kRemoteWrite);
  ASSERT_TRUE(access.ok());
  EXPECT_TRUE(access->write(0, &word, sizeof word));
  EXPECT_FALSE(access->write(2048, &word, sizeof word));
}

TEST_F(RegistryTest, AtomicsOfManyThreadsLoseNothing) {
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kEach = 2000;
  for (std::uint32_t access : {kFull, kFull | kOnDemand}) {
    std::memset(buffer_, 0, 16);
    const std::uint32_t key = add(access);
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (std::uint64_t i = 0; i < kEach; ++i) {
          std::uint64_t original;
          auto at = registry_.pin({key, kDomain, address(0), 8, kRemoteAtomic, kAnyQp});
          ASSERT_TRUE(at.ok() && at->fetch_add(3, &original));
          at = registry_.pin({key, kDomain, address(8), 8, kRemoteAtomic, kAnyQp});
          std::uint64_t expected = 0;
          do {
            expected = original;
            ASSERT_TRUE(at.ok() && at->compare_swap(expected, expected + 1, &original));
          } while (original != expected);
        }
      });
    }
    for (std::thread& t : threads) t.join();
    std::uint64_t words[2];
    std::memcpy(words, buffer_, 16);
    EXPECT_EQ(words[0], 3 * kThreads * kEach);
    EXPECT_EQ(words[1], kThreads * kEach);
  }
}

}  // namespace
}  // namespace verbena::memory
