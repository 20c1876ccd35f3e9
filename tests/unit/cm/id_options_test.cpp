// SPDX-License-Identifier: BSD-2-Clause
// Options: how long their values are, in which states and for which queue pairs they may be set.
#include "verbena/cm/id_options.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace verbena::cm {
namespace {

enum : std::uint32_t { kTos = 0, kReuseAddr = 1, kAfOnly = 2, kAckTimeout = 3 };

int set(RdmaId& id, std::uint32_t name, std::int32_t value, std::size_t size) {
  std::uint8_t bytes[8]{};
  std::memcpy(bytes, &value, sizeof value);
  return set_id_option(id, name, std::span(bytes).first(size));
}

TEST(IdOptionsTest, APortSpaceHasItsTypeAndIbHasAll) {
  EXPECT_EQ(qp_type_in(0x106, 0), QpType::kRc);
  EXPECT_EQ(qp_type_in(0x111, 2), QpType::kUd);
  EXPECT_EQ(qp_type_in(0x002, 2), QpType::kUd);
  EXPECT_EQ(qp_type_in(0x107, 2), std::nullopt);
  for (const std::uint8_t type : {2, 3, 4, 9, 10}) {
    EXPECT_EQ(qp_type_in(0x13f, type), static_cast<QpType>(type));
  }
  for (const std::uint8_t none : {0, 1, 5, 11, 255}) {
    EXPECT_EQ(qp_type_in(0x13f, none), std::nullopt);
  }
}

TEST(IdOptionsTest, EachHasItsSize) {
  RdmaId id;
  EXPECT_EQ(set(id, kTos, 0x20, 4), EINVAL);
  EXPECT_EQ(set(id, kTos, 0x20, 1), 0);
  EXPECT_EQ(id.tos, 0x20);
  EXPECT_EQ(set(id, kReuseAddr, 1, 1), EINVAL);
  EXPECT_EQ(set(id, kReuseAddr, 1, 4), 0);
  EXPECT_TRUE(id.reuse_address);
  EXPECT_EQ(set(id, kAfOnly, 2, 8), EINVAL);
  EXPECT_FALSE(id.family_only_set);
  EXPECT_EQ(set(id, kAfOnly, 2, 4), 0);
  EXPECT_TRUE(id.family_only);
  EXPECT_TRUE(id.family_only_set);
  EXPECT_EQ(set(id, kAckTimeout, 20, 4), EINVAL);
  EXPECT_EQ(set(id, kAckTimeout, 0xf4, 1), 0);
  EXPECT_EQ(id.ack_timeout, 0x14) << "five bits";
  EXPECT_EQ(set(id, 4, 0, 4), ENOSYS);
}

TEST(IdOptionsTest, AnAddressIsReusedFromTheStartUntilSomebodyListens) {
  RdmaId id;
  id.state = IdState::kBound;
  EXPECT_EQ(set(id, kReuseAddr, 1, 4), 0);
  EXPECT_EQ(set(id, kReuseAddr, 0, 4), EINVAL) << "others may be there already";
  id.state = IdState::kListening;
  EXPECT_EQ(set(id, kReuseAddr, 1, 4), EINVAL);
  EXPECT_EQ(set(id, kReuseAddr, 0, 4), EINVAL);
  EXPECT_TRUE(id.reuse_address);
}

TEST(IdOptionsTest, TheFamilyIsDecidedBeforeListening) {
  RdmaId id;
  for (const IdState state : {IdState::kIdle, IdState::kBound, IdState::kListening}) {
    id.state = state;
    EXPECT_EQ(set(id, kAfOnly, 0, 4), state == IdState::kListening ? EINVAL : 0);
  }
}

TEST(IdOptionsTest, OnlyWhoIsAcknowledgedHasAnAckTimeout) {
  RdmaId id;
  for (const QpType type : {QpType::kUc, QpType::kUd, QpType::kXrcRecv}) {
    id.qp_type = type;
    EXPECT_EQ(set(id, kAckTimeout, 1, 1), EINVAL);
  }
  id.qp_type = QpType::kXrcSend;
  EXPECT_EQ(set(id, kAckTimeout, 1, 1), 0);
}

TEST(IdOptionsTest, OnePathForBothDirectionsIsEnough) {
  std::vector<std::uint8_t> records(2 * 72);
  EXPECT_FALSE(has_usable_path(records));
  records[72] = 1 | 2 | 8 | 32;
  EXPECT_TRUE(has_usable_path(records));
  records.push_back(0);
  EXPECT_FALSE(has_usable_path(records)) << "half a record";
  records[72] = 1 | 2 | 8;
  records.pop_back();
  EXPECT_FALSE(has_usable_path(records));
  EXPECT_FALSE(has_usable_path({}));
}

}  // namespace
}  // namespace verbena::cm
