// SPDX-License-Identifier: BSD-2-Clause
#include "fixture.hpp"
#include "verbena/base/random.hpp"

namespace verbena::memory {
namespace {

using namespace testing;  // the shared names of these tests

constexpr std::uint32_t kQp = 0x4001;
constexpr std::uint32_t kOtherQp = 0x4002;

class WindowTest : public RegistryTest {
 protected:
  WindowBind part(std::uint32_t access, std::uint64_t from = 1024, std::uint64_t length = 512) {
    return {region_, address(from), length, access};
  }
  std::uint32_t bind1(std::uint32_t window, const WindowBind& bind) {
    auto key = registry_.bind_type1(window, kDomain, bind);
    EXPECT_TRUE(key.ok());
    return key.ok() ? *key : 0;
  }
  std::uint32_t bind2(std::uint32_t window, std::uint32_t byte, const WindowBind& bind) {
    auto key = registry_.bind_type2(window, (window & ~0xffu) | byte, kDomain, kQp, bind);
    EXPECT_TRUE(key.ok());
    return key.ok() ? *key : 0;
  }

  std::uint32_t region_ = add(kLocalWrite | kWindowBind);
};

TEST_F(WindowTest, AnUnboundWindowOpensNothing) {
  const std::uint32_t one = add_window(false);
  const std::uint32_t two = add_window(true);
  EXPECT_EQ(refusal_of(pin(one, address(0), 1)), Refusal::kInvalidated);
  EXPECT_EQ(refusal_of(pin(two, address(0), 1, kRemoteRead, kQp)), Refusal::kInvalidated);
}

TEST_F(WindowTest, AWindowOpensItsPartWithItsOwnRights) {
  const std::uint32_t key = bind1(add_window(false), part(kRemoteWrite));
  auto at = pin(key, address(1024), 512, kRemoteWrite, kOtherQp);
  ASSERT_TRUE(at.ok()) << "a type 1 window serves every queue pair of its domain";
  EXPECT_EQ(at->direct(), buffer_ + 1024);
  at->release();
  EXPECT_EQ(refusal_of(pin(key, address(1023), 2, kRemoteWrite)), Refusal::kOutOfRange);
  EXPECT_EQ(refusal_of(pin(key, address(1024), 513, kRemoteWrite)), Refusal::kOutOfRange);
  EXPECT_EQ(refusal_of(pin(key, address(1024), 1, kRemoteRead)), Refusal::kNoPermission);
  EXPECT_EQ(refusal_of(pin(region_, address(1024), 1, kRemoteWrite)), Refusal::kNoPermission);
  EXPECT_EQ(refusal_of(pin(key, address(1024), 1, kRemoteWrite, kQp, kOtherDomain)),
            Refusal::kForeignDomain);
}

TEST_F(WindowTest, AWindowsKeyIsNoLocalKey) {
  const std::uint32_t key =
      bind1(add_window(false), part(kRemoteWrite | kRemoteRead | kLocalWrite));
  EXPECT_EQ(refusal_of(pin(key, address(1024), 1, kLocalRead)), Refusal::kNoPermission);
  EXPECT_EQ(refusal_of(pin(key, address(1024), 1, kLocalWrite)), Refusal::kNoPermission);
}

TEST_F(WindowTest, EachType1BindChangesTheConsumerByte) {
  const std::uint32_t fresh = add_window(false);
  std::uint32_t key = fresh;
  for (int i = 0; i < 300; ++i) {
    const std::uint32_t next = bind1(key, part(kRemoteRead));
    EXPECT_EQ(next >> 8, fresh >> 8);
    EXPECT_EQ(next & 0xff, (key + 1) & 0xff);
    EXPECT_EQ(refusal_of(pin(key, address(1024), 1)), Refusal::kNoSuchKey);
    EXPECT_EQ(refusal_of(registry_.bind_type1(key, kDomain, part(0))), Refusal::kNoSuchKey);
    key = next;
  }
  EXPECT_TRUE(pin(key, address(1024), 1).ok());
}

TEST_F(WindowTest, LengthZeroUnbindsAType1Window) {
  const std::uint32_t bound = bind1(add_window(false), part(kRemoteWrite));
  EXPECT_EQ(refusal_of(registry_.deregister(region_)), Refusal::kBusy);
  EXPECT_EQ(refusal_of(registry_.bind_type1(bound, kOtherDomain, {})), Refusal::kForeignDomain);
  const std::uint32_t unbound = bind1(bound, {region_, 0, 0, 0});
  EXPECT_NE(unbound, bound);
  EXPECT_EQ(refusal_of(pin(bound, address(1024), 1, kRemoteWrite)), Refusal::kNoSuchKey);
  EXPECT_EQ(refusal_of(pin(unbound, address(1024), 1, kRemoteWrite)), Refusal::kInvalidated);
  EXPECT_TRUE(registry_.deregister(region_).ok());
}

TEST_F(WindowTest, RebindingMovesTheClaimToTheNewRegion) {
  const std::uint32_t other = add(kLocalWrite | kWindowBind);
  const std::uint32_t window = bind1(add_window(false), part(kRemoteRead));
  bind1(window, {other, address(0), 64, kRemoteRead});
  EXPECT_TRUE(registry_.deregister(region_).ok());
  EXPECT_EQ(refusal_of(registry_.deregister(other)), Refusal::kBusy);
}

TEST_F(WindowTest, BindingChecksTheRegion) {
  const std::uint32_t window = add_window(false);
  const auto refused = [&](const WindowBind& bind, DomainId domain = kDomain) {
    return refusal_of(registry_.bind_type1(window, domain, bind));
  };
  WindowBind bind = part(kRemoteRead);
  bind.region_key ^= 1;
  EXPECT_EQ(refused(bind), Refusal::kNoSuchKey);
  bind.region_key = window;
  EXPECT_EQ(refused(bind), Refusal::kNoSuchKey);
  EXPECT_EQ(refused(part(kRemoteRead), kOtherDomain), Refusal::kForeignDomain);
  EXPECT_EQ(refused(part(kRemoteRead, 4000, 97)), Refusal::kOutOfRange);
  EXPECT_EQ(refused(part(kRemoteRead, 1, ~std::uint64_t{0})), Refusal::kOutOfRange);
  EXPECT_EQ(refused(part(kWindowBind)), Refusal::kBadArgument);
  EXPECT_EQ(refused(part(kOnDemand)), Refusal::kBadArgument);

  region_ = add(kRemoteRead | kWindowBind);
  EXPECT_EQ(refused(part(kRemoteWrite)), Refusal::kNoPermission);
  EXPECT_EQ(refused(part(kRemoteAtomic)), Refusal::kNoPermission);
  region_ = add(kLocalWrite | kRemoteRead);
  EXPECT_EQ(refused(part(kRemoteRead)), Refusal::kNoPermission);

  RegionRequest foreign = request(kLocalWrite | kWindowBind);
  foreign.domain = kOtherDomain;
  region_ = add(foreign);
  EXPECT_EQ(refused(part(kRemoteRead)), Refusal::kForeignDomain);
  EXPECT_EQ(refusal_of(pin(window, address(1024), 1)), Refusal::kInvalidated)
      << "after all these refusals the window is as it was";
}

TEST_F(WindowTest, ARegionWithBoundWindowsCannotChange) {
  const std::uint32_t window = bind1(add_window(false), part(kRemoteRead));
  Registry::Change change;
  change.domain = true;
  change.to.domain = kOtherDomain;
  EXPECT_EQ(refusal_of(registry_.change_region(region_, change)), Refusal::kBusy);
  ASSERT_TRUE(registry_.free_window(window).ok());
  EXPECT_TRUE(registry_.change_region(region_, change).ok());
}

TEST_F(WindowTest, AZeroBasedWindowCountsFromItsStart) {
  const std::uint32_t key = bind1(add_window(false), part(kRemoteRead | kZeroBased));
  auto at = pin(key, 8, 8);
  ASSERT_TRUE(at.ok());
  EXPECT_EQ(at->direct(), buffer_ + 1032);
  EXPECT_EQ(refusal_of(pin(key, 505, 8)), Refusal::kOutOfRange);
}

TEST_F(WindowTest, AWindowOnAZeroBasedRegionSpeaksTheRegionsAddresses) {
  region_ = add(kLocalWrite | kWindowBind | kZeroBased);
  const std::uint32_t key = bind1(add_window(false), {region_, 100, 50, kRemoteRead});
  auto at = pin(key, 149, 1);
  ASSERT_TRUE(at.ok());
  EXPECT_EQ(at->direct(), buffer_ + 149);
  EXPECT_EQ(refusal_of(pin(key, 99, 1)), Refusal::kOutOfRange);
}

TEST_F(WindowTest, AWindowOnAnOnDemandRegionGoesThroughThePort) {
  region_ = add(kLocalWrite | kWindowBind | kOnDemand);
  const std::uint32_t key = bind1(add_window(false), part(kRemoteRead));
  auto at = pin(key, address(1024), 1);
  ASSERT_TRUE(at.ok());
  EXPECT_EQ(at->direct(), nullptr);
  port_.present = false;
  std::uint8_t byte;
  EXPECT_FALSE(at->read(&byte, 0, 1));
}

TEST_F(WindowTest, AType2WindowServesTheQueuePairItWasBoundOn) {
  const std::uint32_t window = add_window(true);
  const std::uint32_t key = bind2(window, 0xab, part(kRemoteWrite));
  EXPECT_EQ(key & 0xff, 0xabu);
  EXPECT_TRUE(pin(key, address(1024), 512, kRemoteWrite, kQp).ok());
  EXPECT_EQ(refusal_of(pin(key, address(1024), 1, kRemoteWrite, kOtherQp)), Refusal::kForeignQp);
  EXPECT_EQ(refusal_of(pin(window, address(1024), 1, kRemoteWrite, kQp)), Refusal::kNoSuchKey);
}

TEST_F(WindowTest, AType2WindowIsBoundOnlyWhenFree) {
  const std::uint32_t window = add_window(true);
  const std::uint32_t key = bind2(window, 1, part(kRemoteWrite));
  EXPECT_EQ(refusal_of(registry_.bind_type2(key, key + 1, kDomain, kQp, part(kRemoteRead))),
            Refusal::kBusy);
  EXPECT_TRUE(pin(key, address(1024), 1, kRemoteWrite, kQp).ok());
  ASSERT_TRUE(registry_.invalidate(key, kDomain, kQp).ok());
  EXPECT_EQ(refusal_of(pin(key, address(1024), 1, kRemoteWrite, kQp)), Refusal::kInvalidated);
  const std::uint32_t again = bind2(window, 2, part(kRemoteRead));
  EXPECT_TRUE(pin(again, address(1024), 1, kRemoteRead, kQp).ok());
}

TEST_F(WindowTest, Type2BindsRefuseWhatTheyCannotMean) {
  const std::uint32_t window = add_window(true);
  const auto refused = [&](std::uint32_t from, std::uint32_t to, const WindowBind& bind) {
    return refusal_of(registry_.bind_type2(from, to, kDomain, kQp, bind));
  };
  EXPECT_EQ(refused(window, window + 0x100, part(kRemoteRead)), Refusal::kBadArgument);
  EXPECT_EQ(refused(window, window + 1, part(kRemoteRead, 0, 0)), Refusal::kBadArgument);
  EXPECT_EQ(refused(region_, region_ + 1, part(kRemoteRead)), Refusal::kNoSuchKey);
  const std::uint32_t type1 = add_window(false);
  EXPECT_EQ(refused(type1, type1 + 1, part(kRemoteRead)), Refusal::kNoSuchKey);
  EXPECT_EQ(refusal_of(registry_.bind_type1(window, kDomain, part(kRemoteRead))),
            Refusal::kNoSuchKey);
}

TEST_F(WindowTest, OnlyItsQueuePairInvalidatesAType2Window) {
  const std::uint32_t key = bind2(add_window(true), 9, part(kRemoteRead));
  EXPECT_EQ(refusal_of(registry_.invalidate(key, kOtherDomain, kQp)), Refusal::kForeignDomain);
  EXPECT_EQ(refusal_of(registry_.invalidate(key, kDomain, kOtherQp)), Refusal::kForeignQp);
  EXPECT_EQ(refusal_of(registry_.invalidate(key ^ 1, kDomain, kQp)), Refusal::kNoSuchKey);
  EXPECT_TRUE(pin(key, address(1024), 1, kRemoteRead, kQp).ok());
  EXPECT_TRUE(registry_.invalidate(key, kDomain, kQp).ok());
  EXPECT_TRUE(registry_.invalidate(key, kDomain, kQp).ok()) << "it is free already";
  EXPECT_TRUE(registry_.deregister(region_).ok());
}

TEST_F(WindowTest, RegionsAndType1WindowsAreNotInvalidated) {
  const std::uint32_t window = bind1(add_window(false), part(kRemoteRead));
  EXPECT_EQ(refusal_of(registry_.invalidate(region_, kDomain, kQp)), Refusal::kNoPermission);
  EXPECT_EQ(refusal_of(registry_.invalidate(window, kDomain, kQp)), Refusal::kNoPermission);
  EXPECT_TRUE(pin(window, address(1024), 1).ok());
}

TEST_F(WindowTest, AFreedWindowIsGoneAndItsRegionFree) {
  const std::uint32_t one = bind1(add_window(false), part(kRemoteRead));
  const std::uint32_t two = bind2(add_window(true), 3, part(kRemoteRead));
  EXPECT_EQ(refusal_of(registry_.free_window(region_)), Refusal::kNoSuchKey);
  EXPECT_EQ(refusal_of(registry_.deregister(one)), Refusal::kNoSuchKey);
  ASSERT_TRUE(registry_.free_window(one).ok());
  ASSERT_TRUE(registry_.free_window(two).ok());
  EXPECT_EQ(refusal_of(registry_.free_window(one)), Refusal::kNoSuchKey);
  EXPECT_EQ(refusal_of(pin(one, address(1024), 1)), Refusal::kNoSuchKey);
  EXPECT_EQ(refusal_of(pin(two, address(1024), 1, kRemoteRead, kQp)), Refusal::kNoSuchKey);
  EXPECT_TRUE(registry_.deregister(region_).ok());
}

TEST_F(WindowTest, ADestroyedQueuePairTakesItsWindowsAlong) {
  std::vector<std::uint32_t> mine;
  std::vector<std::uint32_t> theirs;
  for (int i = 0; i < 4; ++i) {
    mine.push_back(bind2(add_window(true), 1, part(kRemoteRead)));
    const std::uint32_t window = add_window(true);
    auto key = registry_.bind_type2(window, window + 1, kDomain, kOtherQp, part(kRemoteRead));
    ASSERT_TRUE(key.ok());
    theirs.push_back(*key);
  }
  ASSERT_TRUE(registry_.invalidate(mine[1], kDomain, kQp).ok());
  registry_.unbind_windows_of(kQp);
  for (std::uint32_t key : mine) {
    EXPECT_EQ(refusal_of(pin(key, address(1024), 1, kRemoteRead, kQp)), Refusal::kInvalidated);
  }
  for (std::uint32_t key : theirs) {
    EXPECT_TRUE(pin(key, address(1024), 1, kRemoteRead, kOtherQp).ok());
  }
  EXPECT_EQ(refusal_of(registry_.deregister(region_)), Refusal::kBusy);
  registry_.unbind_windows_of(kOtherQp);
  EXPECT_TRUE(registry_.deregister(region_).ok());
}

// Binds and unbinds in any order, and compares with a plain table of what should be bound where.
TEST_F(WindowTest, AnyOrderOfBindingLeavesExactlyWhatIsBound) {
  constexpr std::size_t kWindows = 12;
  constexpr std::uint32_t kQps = 3;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    std::vector<std::uint32_t> keys;
    std::vector<std::uint32_t> bound_to(kWindows, kAnyQp);
    for (std::size_t i = 0; i < kWindows; ++i) keys.push_back(add_window(true));
    for (int step = 0; step < 200; ++step) {
      const std::size_t w = random.below(kWindows);
      const auto qpn = static_cast<std::uint32_t>(random.below(kQps));
      const std::uint64_t what = random.below(8);
      if (what == 0) {
        registry_.unbind_windows_of(qpn);
        for (std::uint32_t& to : bound_to) to = to == qpn ? kAnyQp : to;
      } else if (what < 4) {
        const bool works = bound_to[w] == kAnyQp || bound_to[w] == qpn;
        ASSERT_EQ(registry_.invalidate(keys[w], kDomain, qpn).ok(), works) << "seed " << seed;
        if (works) bound_to[w] = kAnyQp;
      } else {
        const bool works = bound_to[w] == kAnyQp;
        auto key = registry_.bind_type2(keys[w], keys[w] ^ 1, kDomain, qpn, part(kRemoteRead));
        ASSERT_EQ(key.ok(), works) << "seed " << seed;
        if (works) {
          keys[w] = *key;
          bound_to[w] = qpn;
        }
      }
      for (std::size_t i = 0; i < kWindows; ++i) {
        for (std::uint32_t q = 0; q < kQps; ++q) {
          ASSERT_EQ(pin(keys[i], address(1024), 1, kRemoteRead, q).ok(), bound_to[i] == q)
              << "seed " << seed << " step " << step << " window " << i;
        }
      }
    }
    for (std::uint32_t q = 0; q < kQps; ++q) registry_.unbind_windows_of(q);
    for (std::uint32_t key : keys) ASSERT_TRUE(registry_.free_window(key).ok());
  }
  EXPECT_TRUE(registry_.deregister(region_).ok());
}

}  // namespace
}  // namespace verbena::memory
