// SPDX-License-Identifier: BSD-2-Clause
// The reason why an access is refused, in words with the values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixture.hpp"

namespace verbena::memory {
namespace {

using ::testing::HasSubstr;

std::string words(Registry& registry, const AccessRequest& request) {
  const auto pin = registry.pin(request);
  return pin.ok() ? "granted" : registry.explain(request, pin.error()).c_str();
}

class Explanation : public ::testing::Test {
 protected:
  Explanation() {
    RegionRequest region;
    region.domain = 1;
    region.host_address = reinterpret_cast<std::uintptr_t>(bytes_);
    region.length = sizeof bytes_;
    region.base = 0x1000;
    region.access = kLocalWrite | kRemoteRead;
    key_ = *registry_.register_region(region);
  }
  AccessRequest access(std::uint64_t address, std::uint64_t length, std::uint32_t need) const {
    return {key_, 1, address, length, need, 7};
  }

  std::uint8_t bytes_[256] = {};
  Registry registry_{trusting_memory_port()};
  std::uint32_t key_ = 0;
};

TEST_F(Explanation, NamesTheRangeAndTheBounds) {
  const std::string text = words(registry_, access(0x10f0, 32, kRemoteRead));
  EXPECT_THAT(text, HasSubstr("address 0x10f0, length 32: "));
  EXPECT_THAT(text, HasSubstr("beyond the region, which is 0x1000 to 0x1100 (256 bytes)"));
}

TEST_F(Explanation, NamesTheRightThatIsMissing) {
  EXPECT_THAT(words(registry_, access(0x1000, 8, kRemoteWrite)),
              HasSubstr("the region lacks IBV_ACCESS_REMOTE_WRITE; its access flags are "
                        "IBV_ACCESS_LOCAL_WRITE|IBV_ACCESS_REMOTE_READ"));
}

TEST_F(Explanation, NamesTheKey) {
  AccessRequest request = access(0x1000, 8, kRemoteRead);
  request.key += 1;
  EXPECT_THAT(words(registry_, request), HasSubstr("there is no region or window of this key"));
  request.key = 0xabcdef00;
  EXPECT_THAT(words(registry_, request), HasSubstr("key 0xabcdef00"));
  ASSERT_TRUE(registry_.deregister(key_).ok());
  EXPECT_THAT(words(registry_, access(0x1000, 8, kRemoteRead)), HasSubstr("(any more)"));
}

TEST_F(Explanation, NamesTheDomainAndTheQueuePair) {
  AccessRequest request = access(0x1000, 8, kRemoteRead);
  request.domain = 2;
  EXPECT_THAT(words(registry_, request), HasSubstr("another protection domain"));
}

// A key opens nothing while ibv_rereg_mr changes its region, and may be explained afterwards.
TEST_F(Explanation, ARegionThatIsThereAgainWasBeingChanged) {
  const AccessRequest request = access(0x1000, 8, kRemoteRead);
  EXPECT_THAT(registry_.explain(request, Refusal::kNoSuchKey).c_str(),
              HasSubstr("the region was just being changed (ibv_rereg_mr"));
}

TEST_F(Explanation, WhileAnotherPinIsHeld) {
  const auto pin = registry_.pin(access(0x1000, 8, kRemoteRead));
  ASSERT_TRUE(pin.ok());
  EXPECT_THAT(words(registry_, access(0x2000, 8, kRemoteRead)), HasSubstr("beyond the region"));
}

}  // namespace
}  // namespace verbena::memory
