// SPDX-License-Identifier: BSD-2-Clause
// Memory that its owner removes while it is registered.
#include <string>
#include <vector>

#include "fixture.hpp"
#include "verbena/base/random.hpp"

namespace verbena::memory {
namespace {

using namespace testing;

struct Span {
  std::uint64_t begin;
  std::uint64_t end;
};

class WithdrawalTest : public RegistryTest {
 protected:
  bool is_there(std::uint32_t key, std::uint64_t offset) {
    std::uint8_t byte = 0;
    auto at = pin(key, address(offset), 1);
    return at.ok() && at->read(&byte, 0, 1);
  }
};

TEST_F(WithdrawalTest, PiecesThatMeetAreOne) {
  const std::uint32_t key = add(kFull);
  for (const std::size_t at : {100, 300, 200, 2000}) registry_.withdraw(address(at), 100, "munmap");
  for (const std::size_t at : {100, 199, 200, 399, 2000}) EXPECT_FALSE(is_there(key, at)) << at;
  for (const std::size_t at : {99, 400, 1999, 2100}) EXPECT_TRUE(is_there(key, at)) << at;
}

// A region keeps only a few holes apart.
TEST_F(WithdrawalTest, OfMoreThanAFewTheNearestBecomeOne) {
  const std::uint32_t key = add(kFull);
  const std::vector<std::size_t> places{100, 1000, 2000, 2100, 4000};
  for (const std::size_t at : places) registry_.withdraw(address(at), 10, "munmap");
  for (const std::size_t at : places) EXPECT_FALSE(is_there(key, at)) << at;
  EXPECT_FALSE(is_there(key, 2050));
  for (const std::size_t at : {99, 500, 1500, 3000, 4010}) EXPECT_TRUE(is_there(key, at)) << at;
}

// Compares with a plain list while regions and holes come and go.
TEST_F(WithdrawalTest, WhatIsWithdrawnIsFoundAmongMany) {
  struct Region {
    std::uint32_t key;
    Span span;
    bool is_torn;
  };
  Random random(7);
  std::vector<Region> regions;
  for (int step = 0; step < 3000; ++step) {
    const std::uint64_t begin = 0x100000 + random.below(4000) * 16;
    const std::uint64_t length = 1 + random.below(random.chance(100'000) ? 8000 : 64);
    if (random.chance(500'000) || regions.empty()) {
      RegionRequest r = request(kFull);
      r.host_address = r.base = begin;
      r.length = length;
      regions.push_back({add(r), {begin, begin + length}, false});
    } else if (random.chance(500'000)) {
      const std::size_t which = random.below(regions.size());
      EXPECT_TRUE(registry_.deregister(regions[which].key).ok());
      regions.erase(regions.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
      const Span gone{begin, begin + 1 + random.below(40)};
      registry_.withdraw(gone.begin, gone.end - gone.begin, "a test");
      for (Region& region : regions) {
        region.is_torn |= region.span.begin < gone.end && gone.begin < region.span.end;
      }
    }
    for (int i = 0; i < 3 && !regions.empty(); ++i) {
      const Region& region = regions[random.below(regions.size())];
      auto at = pin(region.key, region.span.begin, 1);
      ASSERT_TRUE(at.ok());
      ASSERT_EQ(at->direct() == nullptr, region.is_torn) << step;
    }
  }
}

TEST_F(WithdrawalTest, OnlyWhatWasTakenAwayIsRefused) {
  const std::uint32_t key = add(kFull);
  registry_.withdraw(address(1024), 1024, "munmap");
  std::uint8_t bytes[8] = {};
  std::uint64_t original = 0;
  for (const auto& [offset, is_there] : {std::pair{std::size_t{0}, true},
                                         {1016, true},
                                         {1020, false},
                                         {1024, false},
                                         {2040, false},
                                         {2044, false},
                                         {2048, true}}) {
    auto at = pin(key, address(offset), 8, kAllRemote & ~kRemoteAtomic);
    ASSERT_TRUE(at.ok());
    EXPECT_EQ(at->read(bytes, 0, 8), is_there) << offset;
    EXPECT_EQ(at->write(0, bytes, 8), is_there) << offset;
  }
  EXPECT_FALSE(pin(key, address(1024), 8, kRemoteAtomic)->fetch_add(1, &original));
  EXPECT_FALSE(pin(key, address(1024), 8, kRemoteAtomic)->compare_swap(0, 1, &original));
  EXPECT_TRUE(pin(key, address(8), 8, kRemoteAtomic)->fetch_add(1, &original));
  EXPECT_TRUE(pin(key, address(8), 8, kRemoteAtomic)->compare_swap(1, 0, &original));
  EXPECT_EQ(buffer_[8], 0);
  const AccessRequest refused{key, kDomain, address(0), 8, kRemoteRead, 0};
  const std::string why = registry_.explain(refused, Refusal::kNotMapped).c_str();
  EXPECT_NE(why.find("was taken away by munmap"), std::string::npos) << why;
  EXPECT_TRUE(registry_.deregister(key).ok());
}

TEST_F(WithdrawalTest, WhatIsRegisteredLaterIsWhole) {
  const std::uint32_t key = add(kFull);
  registry_.withdraw(address(0), 4096, "munmap");
  const std::uint32_t later = add(kFull);
  EXPECT_EQ(pin(key, address(0), 8)->direct(), nullptr);
  EXPECT_EQ(pin(later, address(0), 8)->direct(), buffer_);
  // The key stands for the new memory only after a new translation. A change of rights brings
  // nothing back.
  Registry::Change change;
  change.access = true;
  change.to.access = kRemoteRead;
  EXPECT_TRUE(registry_.change_region(key, change).ok());
  EXPECT_EQ(pin(key, address(0), 8)->direct(), nullptr);
  change.translation = true;
  change.to = request(kFull);
  EXPECT_TRUE(registry_.change_region(key, change).ok());
  EXPECT_EQ(pin(key, address(0), 8)->direct(), buffer_);
}

TEST_F(WithdrawalTest, WindowsLoseWhatTheirRegionsLose) {
  const std::uint32_t region = add(kFull);
  const auto bind = [&](std::uint32_t window) {
    return *registry_.bind_type1(window, kDomain, {region, address(0), 4096, kRemoteRead});
  };
  const std::uint32_t before = bind(add_window(false));
  registry_.withdraw(address(0), 1024, "munmap");
  const std::uint32_t after = bind(add_window(false));
  std::uint8_t byte = 0;
  for (const std::uint32_t key : {before, after}) {
    EXPECT_FALSE(pin(key, address(0), 1)->read(&byte, 0, 1));
    EXPECT_TRUE(pin(key, address(1024), 1)->read(&byte, 0, 1));
  }
  const std::uint32_t unbound = *registry_.bind_type1(before, kDomain, {});
  registry_.withdraw(address(2048), 1024, "munmap");
  EXPECT_EQ(refusal_of(pin(unbound, address(0), 1)), Refusal::kInvalidated);
}

TEST_F(WithdrawalTest, OnDemandAndDeviceMemoryFollowTheirMappings) {
  RegionRequest device = request(kFull);
  device.device_memory = true;
  for (const std::uint32_t key : {add(kFull | kOnDemand), add(device)}) {
    registry_.withdraw(address(0), 4096, "munmap");
    std::uint8_t byte = 0;
    EXPECT_TRUE(pin(key, address(0), 1)->read(&byte, 0, 1));
  }
}

// A region of another process is reached as if it were on demand.
TEST_F(WithdrawalTest, ARegionIsTakenAwayWithAllItsWindows) {
  const std::uint32_t region = add(kFull | kOnDemand);
  const WindowBind bind{region, address(0), 64, kRemoteRead};
  const std::uint32_t first = *registry_.bind_type1(add_window(false), kDomain, bind);
  const std::uint32_t second = add_window(true);
  EXPECT_TRUE(registry_.bind_type2(second, second, kDomain, 5, bind).ok());
  const std::uint32_t other = add(kFull | kOnDemand);
  registry_.take_away(region, "a test");
  EXPECT_FALSE(is_there(region, 0));
  EXPECT_FALSE(is_there(first, 0));
  std::uint8_t byte = 0;
  EXPECT_FALSE(pin(second, address(0), 1, kRemoteRead, 5)->read(&byte, 0, 1));
  EXPECT_TRUE(is_there(other, 0));
  const std::uint32_t later = *registry_.bind_type1(add_window(false), kDomain, bind);
  EXPECT_FALSE(is_there(later, 0));
  const AccessRequest refused{region, kDomain, address(0), 8, kRemoteRead, 0};
  const std::string why = registry_.explain(refused, Refusal::kNotMapped).c_str();
  EXPECT_NE(why.find("memory of the region (0x"), std::string::npos) << why;
  EXPECT_NE(why.find("was taken away by a test"), std::string::npos) << why;
  for (const std::uint32_t window : {first, second, later})
    EXPECT_TRUE(registry_.free_window(window).ok());
  EXPECT_TRUE(registry_.deregister(region).ok());
  EXPECT_EQ(refusal_of(pin(region, address(0), 8)), Refusal::kNoSuchKey);
  registry_.take_away(region, "nothing");
}

}  // namespace
}  // namespace verbena::memory
