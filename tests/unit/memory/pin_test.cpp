// SPDX-License-Identifier: BSD-2-Clause
#include <utility>

#include "fixture.hpp"

namespace verbena::memory {
namespace {

using namespace testing;  // the shared names of these tests

TEST_F(RegistryTest, APinReadsAndWritesFromTheAddressAskedFor) {
  const std::uint32_t key = add(kFull);
  auto at = pin(key, address(100), 50, kRemoteWrite);
  ASSERT_TRUE(at.ok());
  const char text[] = "verbena";
  EXPECT_TRUE(at->write(10, text, 7));
  EXPECT_EQ(std::memcmp(buffer_ + 110, text, 7), 0);
  EXPECT_EQ(buffer_[109], 0);
  EXPECT_EQ(buffer_[117], 0);
  char back[8] = {};
  EXPECT_TRUE(at->read(back, 10, 7));
  EXPECT_STREQ(back, text);
  EXPECT_EQ(port_.reads + port_.writes, 0) << "direct memory is not reached through the port";
}

TEST_F(RegistryTest, AMovedPinLetsGoOnce) {
  const std::uint32_t key = add(kFull);
  {
    Pin first = std::move(pin(key, address(0), 8)).value();
    Pin second(std::move(first));
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): the test is about moved pins
    EXPECT_TRUE(second);
    first = std::move(second);
    first = std::move(pin(key, address(8), 8)).value();
    EXPECT_EQ(first.direct(), buffer_ + 8);
    first.release();
    first.release();
    EXPECT_FALSE(first);
  }
  // This waits for ever if a pin is left, and aborts if one was counted twice.
  EXPECT_TRUE(registry_.deregister(key).ok());
}

TEST_F(RegistryTest, ARefusedAccessHoldsNothing) {
  const std::uint32_t key = add(kRemoteRead);
  EXPECT_FALSE(pin(key, address(0), 8, kRemoteWrite).ok());
  EXPECT_FALSE(pin(key, address(9000), 8).ok());
  EXPECT_TRUE(registry_.deregister(key).ok());
}

TEST_F(RegistryTest, AtomicsActOnTheWordAndReturnWhatWasThere) {
  const std::uint32_t key = add(kFull);
  std::uint64_t word = 40;
  std::memcpy(buffer_ + 16, &word, 8);
  auto at = pin(key, address(16), 8, kRemoteAtomic);
  ASSERT_TRUE(at.ok());
  std::uint64_t original = 0;
  EXPECT_TRUE(at->fetch_add(2, &original));
  EXPECT_EQ(original, 40u);
  EXPECT_TRUE(at->compare_swap(41, 1, &original));
  EXPECT_EQ(original, 42u);
  EXPECT_TRUE(at->compare_swap(42, 7, &original));
  EXPECT_EQ(original, 42u);
  EXPECT_TRUE(at->fetch_add(~std::uint64_t{0}, &original));
  EXPECT_EQ(original, 7u);
  std::memcpy(&word, buffer_ + 16, 8);
  EXPECT_EQ(word, 6u);
}

TEST_F(RegistryTest, AtomicsNeedAlignmentOnBothSidesOfTheTranslation) {
  const std::uint32_t key = add(kFull);
  for (std::uint64_t shift = 1; shift < 8; ++shift) {
    EXPECT_EQ(refusal_of(pin(key, address(shift), 8, kRemoteAtomic)), Refusal::kMisaligned);
    EXPECT_TRUE(pin(key, address(shift), 8, kRemoteRead).ok());
  }
  RegionRequest skewed = request(kFull);
  skewed.host_address += 4;
  skewed.length -= 4;
  skewed.base = 0x1000;
  EXPECT_EQ(refusal_of(pin(add(skewed), 0x1000, 8, kRemoteAtomic)), Refusal::kMisaligned);
  // Alignment is checked last.
  EXPECT_EQ(refusal_of(pin(add(kRemoteRead), address(1), 8, kRemoteAtomic)),
            Refusal::kNoPermission);
}

TEST_F(RegistryTest, OnDemandRegionsAreReachedThroughThePort) {
  port_.present = false;
  const std::uint32_t key = add(kFull | kOnDemand);
  EXPECT_EQ(port_.questions, 0) << "their pages may come later";
  auto at = pin(key, address(8), 8, kAllRemote);
  ASSERT_TRUE(at.ok());
  EXPECT_EQ(at->direct(), nullptr);
  std::uint64_t value = 5;
  std::uint64_t original = 99;
  EXPECT_FALSE(at->write(0, &value, 8));
  EXPECT_FALSE(at->read(&value, 0, 8));
  EXPECT_FALSE(at->fetch_add(1, &original));
  EXPECT_FALSE(at->compare_swap(0, 1, &original));
  EXPECT_EQ(original, 99u);

  port_.present = true;
  EXPECT_TRUE(at->write(0, &value, 8));
  EXPECT_TRUE(at->fetch_add(3, &original));
  EXPECT_EQ(original, 5u);
  EXPECT_TRUE(at->compare_swap(7, 1, &original));
  EXPECT_EQ(original, 8u);
  EXPECT_TRUE(at->compare_swap(8, 1, &original));
  EXPECT_TRUE(at->read(&value, 0, 8));
  EXPECT_EQ(value, 1u);
  EXPECT_EQ(buffer_[8], 1);

  port_.writable = false;
  EXPECT_FALSE(at->fetch_add(1, &original));
  EXPECT_TRUE(at->compare_swap(1234, 1, &original)) << "a comparison that fails writes nothing";
}

TEST_F(RegistryTest, EmptyCopiesTouchNothing) {
  port_.present = false;
  const std::uint32_t key = add(kFull | kOnDemand);
  auto at = pin(key, address(0), 0);
  ASSERT_TRUE(at.ok());
  EXPECT_TRUE(at->read(nullptr, 0, 0));
  EXPECT_TRUE(at->write(0, nullptr, 0));
  EXPECT_EQ(port_.reads + port_.writes, 0);
}

TEST_F(RegistryTest, ImplicitRegionsReachAnyAddress) {
  RegionRequest r;
  r.domain = kDomain;
  r.access = kLocalWrite | kOnDemand;
  r.implicit = true;
  r.length = ~std::uint64_t{0};
  const std::uint32_t key = add(r);
  auto at = pin(key, address(64), 4, kLocalWrite);
  ASSERT_TRUE(at.ok());
  EXPECT_TRUE(at->write(1, "abc", 3));
  EXPECT_EQ(std::memcmp(buffer_ + 65, "abc", 3), 0);
}

TEST_F(RegistryTest, NullMemoryReadsZerosAndSwallowsWrites) {
  RegionRequest r;
  r.domain = kDomain;
  r.null = true;
  const std::uint32_t key = add(r);
  auto at = pin(key, 0x123456789abcull, 1u << 30, kLocalWrite);
  ASSERT_TRUE(at.ok());
  EXPECT_EQ(at->direct(), nullptr);
  std::uint8_t bytes[16];
  std::memset(bytes, 0xee, sizeof bytes);
  EXPECT_TRUE(at->write(0, bytes, sizeof bytes));
  EXPECT_TRUE(at->read(bytes, 1u << 20, sizeof bytes));
  for (std::uint8_t b : bytes) EXPECT_EQ(b, 0);
  std::uint64_t original = 1;
  EXPECT_TRUE(at->fetch_add(1, &original));
  EXPECT_EQ(original, 0u);
  EXPECT_EQ(refusal_of(pin(key, 0, 8, kRemoteRead)), Refusal::kNoPermission);
  EXPECT_EQ(port_.reads + port_.writes + port_.questions, 0);
}

TEST(TrustingPort, BelievesAndCopies) {
  std::uint8_t memory[16] = {};
  MemoryPort& port = trusting_memory_port();
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  EXPECT_TRUE(port.is_mapped(at, 1u << 30, true));
  EXPECT_TRUE(port.write(at + 3, "xyz", 3));
  char back[4] = {};
  EXPECT_TRUE(port.read(back, at + 3, 3));
  EXPECT_STREQ(back, "xyz");
}

}  // namespace
}  // namespace verbena::memory
