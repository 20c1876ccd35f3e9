// SPDX-License-Identifier: BSD-2-Clause
#include <cstring>

#include "fixture.hpp"

namespace verbena::memory {
namespace {

using namespace testing;  // the shared names of these tests

constexpr std::uint64_t kTop = ~std::uint64_t{0};

TEST_F(RegistryTest, GivesKeysThatOpenTheirRangeAndNoByteMore) {
  const std::uint32_t key = add(kFull);
  EXPECT_NE(key, 0u);
  EXPECT_TRUE(pin(key, address(0), 4096).ok());
  EXPECT_TRUE(pin(key, address(4095), 1).ok());
  EXPECT_TRUE(pin(key, address(4096), 0).ok());
  EXPECT_EQ(refusal_of(pin(key, address(4096), 1)), Refusal::kOutOfRange);
  EXPECT_EQ(refusal_of(pin(key, address(0), 4097)), Refusal::kOutOfRange);
  EXPECT_EQ(refusal_of(pin(key, address(0) - 1, 1)), Refusal::kOutOfRange);
  EXPECT_EQ(refusal_of(pin(key, address(4097), 0)), Refusal::kOutOfRange);
}

TEST_F(RegistryTest, LengthsThatWrapAreOutOfRange) {
  const std::uint32_t key = add(kFull);
  EXPECT_EQ(refusal_of(pin(key, address(1), kTop)), Refusal::kOutOfRange);
  EXPECT_EQ(refusal_of(pin(key, address(4000), kTop - 2)), Refusal::kOutOfRange);
  EXPECT_EQ(refusal_of(pin(key, kTop, 2)), Refusal::kOutOfRange);
  EXPECT_EQ(refusal_of(pin(key, 0, kTop)), Refusal::kOutOfRange);
}

TEST_F(RegistryTest, ARegionMayEndAtTheTopOfTheAddressSpace) {
  RegionRequest r = request(kFull);
  r.base = kTop - 4095;
  const std::uint32_t key = add(r);
  EXPECT_TRUE(pin(key, kTop, 1).ok());
  EXPECT_TRUE(pin(key, kTop - 4095, 4096).ok());
  EXPECT_EQ(refusal_of(pin(key, kTop, 2)), Refusal::kOutOfRange);
  r.base = kTop - 4094;
  EXPECT_EQ(refusal_of(registry_.register_region(r)), Refusal::kBadArgument);
  r = request(kFull);
  r.host_address = kTop - 4094;
  EXPECT_EQ(refusal_of(registry_.register_region(r)), Refusal::kBadArgument);
}

TEST_F(RegistryTest, ChecksInTheOrderKeyDomainRangeAccess) {
  const std::uint32_t key = add(kRemoteRead);
  const std::uint64_t outside = address(5000);
  EXPECT_EQ(refusal_of(pin(key + 1, outside, 1, kRemoteWrite, kAnyQp, kOtherDomain)),
            Refusal::kNoSuchKey);
  EXPECT_EQ(refusal_of(pin(key, outside, 1, kRemoteWrite, kAnyQp, kOtherDomain)),
            Refusal::kForeignDomain);
  EXPECT_EQ(refusal_of(pin(key, outside, 1, kRemoteWrite)), Refusal::kOutOfRange);
  EXPECT_EQ(refusal_of(pin(key, address(0), 1, kRemoteWrite)), Refusal::kNoPermission);
}

TEST_F(RegistryTest, GrantsExactlyTheRightsOfTheRegion) {
  for (std::uint32_t access : {0u, +kLocalWrite, +kRemoteRead, kLocalWrite | kRemoteWrite,
                               kLocalWrite | kRemoteAtomic, kFull}) {
    const std::uint32_t key = add(access);
    for (std::uint32_t need : {+kLocalWrite, +kRemoteWrite, +kRemoteRead, +kRemoteAtomic}) {
      EXPECT_EQ(pin(key, address(0), 8, need).ok(), (access & need) != 0) << access << " " << need;
    }
    EXPECT_TRUE(pin(key, address(0), 8, kLocalRead).ok());
  }
}

TEST_F(RegistryTest, RemoteChangesNeedLocalWrite) {
  EXPECT_EQ(refusal_of(registry_.register_region(request(kRemoteWrite))), Refusal::kBadArgument);
  EXPECT_EQ(refusal_of(registry_.register_region(request(kRemoteAtomic))), Refusal::kBadArgument);
  EXPECT_TRUE(registry_.register_region(request(kRemoteRead)).ok());
}

TEST_F(RegistryTest, RefusesUnknownRightsButPassesOverOptionalOnes) {
  EXPECT_EQ(refusal_of(registry_.register_region(request(1u << 10))), Refusal::kBadArgument);
  EXPECT_EQ(refusal_of(registry_.register_region(request(1u << 31))), Refusal::kBadArgument);
  EXPECT_TRUE(registry_.register_region(request(kRelaxedOrdering)).ok());
  EXPECT_TRUE(registry_.register_region(request(1u << 29)).ok());
  EXPECT_TRUE(registry_.register_region(request(kHugePages | kLocalWrite)).ok());
}

TEST_F(RegistryTest, AsksOnceWhetherPagesAreMapped) {
  add(kRemoteRead);
  EXPECT_EQ(port_.questions, 1);
  EXPECT_EQ(port_.asked_length, sizeof buffer_);
  EXPECT_FALSE(port_.asked_writable);
  add(kLocalWrite);
  EXPECT_TRUE(port_.asked_writable);
  port_.writable = false;
  EXPECT_EQ(refusal_of(registry_.register_region(request(kLocalWrite))), Refusal::kNotMapped);
  EXPECT_TRUE(registry_.register_region(request(kRemoteRead)).ok());
  port_.present = false;
  EXPECT_EQ(refusal_of(registry_.register_region(request(0))), Refusal::kNotMapped);
}

TEST_F(RegistryTest, AnEmptyRegionIsAllowedAndOpensNothing) {
  port_.present = false;
  RegionRequest r = request(kFull);
  r.length = 0;
  const std::uint32_t key = add(r);
  EXPECT_TRUE(pin(key, address(0), 0).ok());
  EXPECT_EQ(refusal_of(pin(key, address(0), 1)), Refusal::kOutOfRange);
}

TEST_F(RegistryTest, TranslatesFromTheBaseThatTheOwnerChose) {
  RegionRequest r = request(kFull);
  r.base = 0x10000;
  const std::uint32_t key = add(r);
  auto at = pin(key, 0x10010, 4);
  ASSERT_TRUE(at.ok());
  EXPECT_EQ(at->direct(), buffer_ + 0x10);
  EXPECT_EQ(refusal_of(pin(key, address(0), 4)), Refusal::kOutOfRange);
}

TEST_F(RegistryTest, AZeroBasedRegionStartsAtZero) {
  const std::uint32_t key = add(kFull | kZeroBased);
  auto at = pin(key, 100, 4);
  ASSERT_TRUE(at.ok());
  EXPECT_EQ(at->direct(), buffer_ + 100);
  EXPECT_EQ(refusal_of(pin(key, address(0), 4)), Refusal::kOutOfRange);
}

TEST_F(RegistryTest, DeviceMemoryIsNotAskedFor) {
  port_.present = false;
  RegionRequest r = request(kLocalWrite | kZeroBased);
  r.device_memory = true;
  const std::uint32_t key = add(r);
  EXPECT_EQ(port_.questions, 0);
  auto at = pin(key, 8, 8, kLocalWrite);
  ASSERT_TRUE(at.ok());
  EXPECT_EQ(at->direct(), buffer_ + 8);
}

TEST_F(RegistryTest, DeregisteredKeysOpenNothingEvenWhenTheirSlotIsUsedAgain) {
  Registry small(port_, 1);
  auto first = small.register_region(request(kFull));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(refusal_of(small.register_region(request(kFull))), Refusal::kTableFull);
  ASSERT_TRUE(small.deregister(*first).ok());
  EXPECT_EQ(refusal_of(small.pin({*first, kDomain, address(0), 1, 0})), Refusal::kNoSuchKey);
  auto second = small.register_region(request(kFull));
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(*second >> 8, *first >> 8);
  EXPECT_NE(*second, *first);
  EXPECT_EQ(refusal_of(small.pin({*first, kDomain, address(0), 1, 0})), Refusal::kNoSuchKey);
  EXPECT_TRUE(small.pin({*second, kDomain, address(0), 1, 0}).ok());
  EXPECT_EQ(refusal_of(small.deregister(*first)), Refusal::kNoSuchKey);
}

TEST_F(RegistryTest, GivesTheKeyThatIsWishedForUnlessItIsTaken) {
  const auto wish = [&](std::uint32_t key) {
    RegionRequest r = request(kFull);
    r.key = key;
    return *registry_.register_region(r);
  };
  registry_.leave_lower_keys();
  const std::uint32_t own = add(kFull);
  EXPECT_EQ(wish(0x00000341), 0x00000341u);
  EXPECT_TRUE(pin(0x00000341, address(0), 1).ok());
  EXPECT_NE(wish(0x00000341) >> 8, 3u) << "it is taken";
  EXPECT_NE(wish(own) >> 8, own >> 8);
  EXPECT_NE(wish(0xffffff00) >> 8, 0xffffffu) << "there is no such slot";
  EXPECT_NE(wish(0x000000ff) >> 8, 0u);
  // A key can be had again once its slot is free, wherever the slot is among the free ones.
  std::vector<std::uint32_t> keys;
  for (std::uint32_t i = 10; i < 15; ++i) keys.push_back(wish(i << 8));
  for (const std::uint32_t key : keys) ASSERT_TRUE(registry_.deregister(key).ok());
  for (const std::size_t i : {2, 0, 4, 1, 3}) EXPECT_EQ(wish(keys[i]), keys[i]);
  for (int i = 0; i < 200; ++i) {
    const std::uint32_t key = add(kFull);
    ASSERT_TRUE(key >> 8 < 10 || key >> 8 >= 15) << "given out twice";
  }
}

TEST_F(RegistryTest, FreshKeysPassOverThoseThatWereWishedFor) {
  RegionRequest r = request(kFull);
  r.key = 0x0305;
  ASSERT_EQ(*registry_.register_region(r), 0x0305u);
  std::vector<std::uint32_t> slots;
  for (int i = 0; i < 4; ++i) slots.push_back(add(kFull) >> 8);
  EXPECT_EQ(slots, (std::vector<std::uint32_t>{1, 2, 4, 5}));
}

TEST_F(RegistryTest, AStaleKeyStaysStaleForThousandsOfRegistrations) {
  const std::uint32_t stale = add(kFull);
  ASSERT_TRUE(registry_.deregister(stale).ok());
  for (int i = 0; i < 10000; ++i) {
    const std::uint32_t key = add(kFull);
    ASSERT_NE(key, stale) << i;
    ASSERT_TRUE(registry_.deregister(key).ok());
  }
}

// A peer's keys tell nothing about other keys: their lowest bytes come from the seed.
TEST_F(RegistryTest, TheBytesOfKeysComeFromTheSeed) {
  const auto keys_of = [&](std::uint64_t seed) {
    Registry registry(port_, 1024, seed);
    std::vector<std::uint32_t> keys;
    for (int i = 0; i < 8; ++i) keys.push_back(*registry.register_region(request(kFull)));
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(registry.deregister(keys[i]).ok());
    for (int i = 0; i < 200; ++i) {
      keys.push_back(*registry.register_region(request(kFull)));
      EXPECT_TRUE(registry.deregister(keys.back()).ok());
    }
    return keys;
  };
  const auto first = keys_of(1);
  EXPECT_EQ(keys_of(1), first);
  const auto other = keys_of(2);
  int alike = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i] >> 8, other[i] >> 8);
    alike += first[i] == other[i] ? 1 : 0;
  }
  EXPECT_LT(alike, 10);
}

TEST_F(RegistryTest, KeysThatWereNeverGivenOutAreUnknown) {
  const std::uint32_t key = add(kFull);
  for (std::uint32_t wrong :
       {0u, 0xffu, key ^ 1, key ^ 0x80, key + 0x100, 0xffffffffu, 0x80000000u}) {
    EXPECT_EQ(refusal_of(pin(wrong, address(0), 1)), Refusal::kNoSuchKey) << wrong;
    EXPECT_EQ(refusal_of(registry_.deregister(wrong)), Refusal::kNoSuchKey) << wrong;
  }
}

TEST_F(RegistryTest, HoldsManyRegionsAcrossChunks) {
  std::vector<std::uint32_t> keys;
  for (int i = 0; i < 5000; ++i) keys.push_back(add(kFull));
  for (std::uint32_t key : keys) ASSERT_TRUE(pin(key, address(0), 4096).ok());
  for (std::uint32_t key : keys) ASSERT_TRUE(registry_.deregister(key).ok());
  for (std::uint32_t key : keys) {
    ASSERT_EQ(refusal_of(pin(key, address(0), 1)), Refusal::kNoSuchKey);
  }
}

TEST_F(RegistryTest, ChangesEachPropertyAndLeavesTheOthers) {
  alignas(64) static std::uint8_t other[1024];
  for (unsigned parts = 1; parts < 8; ++parts) {
    const std::uint32_t key = add(kFull);
    Registry::Change change;
    change.translation = (parts & 1) != 0;
    change.domain = (parts & 2) != 0;
    change.access = (parts & 4) != 0;
    change.to.host_address = change.to.base = reinterpret_cast<std::uintptr_t>(other);
    change.to.length = sizeof other;
    change.to.domain = kOtherDomain;
    change.to.access = kRemoteRead;
    auto changed = registry_.change_region(key, change);
    ASSERT_TRUE(changed.ok()) << parts;
    EXPECT_EQ(*changed, key);

    const DomainId domain = change.domain ? kOtherDomain : kDomain;
    const std::uint64_t at = change.translation ? change.to.base : address(0);
    const std::uint64_t length = change.translation ? sizeof other : sizeof buffer_;
    EXPECT_TRUE(pin(key, at, length, kRemoteRead, kAnyQp, domain).ok()) << parts;
    EXPECT_EQ(refusal_of(pin(key, at, length + 1, kRemoteRead, kAnyQp, domain)),
              Refusal::kOutOfRange);
    EXPECT_EQ(pin(key, at, length, kRemoteWrite, kAnyQp, domain).ok(), !change.access) << parts;
    ASSERT_TRUE(registry_.deregister(key).ok());
  }
}

TEST_F(RegistryTest, ARefusedChangeChangesNothing) {
  const std::uint32_t key = add(kFull);
  Registry::Change change;
  EXPECT_EQ(refusal_of(registry_.change_region(key, change)), Refusal::kBadArgument);
  change.access = change.domain = true;
  change.to.domain = kOtherDomain;
  change.to.access = kRemoteWrite;
  EXPECT_EQ(refusal_of(registry_.change_region(key, change)), Refusal::kBadArgument);
  change.access = false;
  change.translation = true;
  change.to.length = 16;
  port_.present = false;
  EXPECT_EQ(refusal_of(registry_.change_region(key, change)), Refusal::kNotMapped);
  EXPECT_EQ(refusal_of(registry_.change_region(key + 1, change)), Refusal::kNoSuchKey);
  EXPECT_TRUE(pin(key, address(0), 4096, kAllRemote).ok());
}

TEST_F(RegistryTest, ChangingAccessMovesARegionToAndFromZero) {
  const std::uint32_t key = add(kFull);
  Registry::Change change;
  change.access = true;
  change.to.access = kFull | kZeroBased;
  ASSERT_TRUE(registry_.change_region(key, change).ok());
  EXPECT_TRUE(pin(key, 0, 4096).ok());
  change.to.access = kFull;
  ASSERT_TRUE(registry_.change_region(key, change).ok());
  EXPECT_TRUE(pin(key, address(0), 4096).ok());
  EXPECT_EQ(refusal_of(pin(key, 0, 1)), Refusal::kOutOfRange);
}

TEST_F(RegistryTest, SpecialRegionsKeepTheirTranslation) {
  RegionRequest implicit = request(kLocalWrite | kOnDemand);
  implicit.implicit = true;
  RegionRequest device = request(kLocalWrite);
  device.device_memory = true;
  Registry::Change change;
  change.translation = true;
  change.to = request(0);
  for (const RegionRequest& r : {implicit, device}) {
    EXPECT_EQ(refusal_of(registry_.change_region(add(r), change)), Refusal::kBadArgument);
  }
  RegionRequest null = request(0);
  null.null = true;
  change.translation = false;
  change.domain = true;
  EXPECT_EQ(refusal_of(registry_.change_region(add(null), change)), Refusal::kBadArgument);
}

TEST_F(RegistryTest, ImplicitRegionsNeedOnDemand) {
  RegionRequest r = request(kLocalWrite);
  r.implicit = true;
  EXPECT_EQ(refusal_of(registry_.register_region(r)), Refusal::kBadArgument);
  r.access |= kOnDemand | kZeroBased;
  EXPECT_EQ(refusal_of(registry_.register_region(r)), Refusal::kBadArgument);
  r.access = kLocalWrite | kOnDemand;
  r.null = true;
  EXPECT_EQ(refusal_of(registry_.register_region(r)), Refusal::kBadArgument);
  r.null = false;
  const std::uint32_t key = add(r);
  EXPECT_TRUE(pin(key, address(0), 4096, kLocalWrite).ok());
  EXPECT_TRUE(pin(key, kTop, 1, kLocalWrite).ok());
  EXPECT_EQ(refusal_of(pin(key, kTop, 2, kLocalWrite)), Refusal::kOutOfRange);
}

TEST(Refusal, EachHasItsWords) {
  for (int i = 0; i <= static_cast<int>(Refusal::kTableFull); ++i) {
    EXPECT_GT(std::strlen(to_string(static_cast<Refusal>(i))), 5u) << i;
  }
}

}  // namespace
}  // namespace verbena::memory
