// SPDX-License-Identifier: BSD-2-Clause
// Tests which numbers IDs get, and how they are found.
#include "verbena/cm/id_table.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

namespace verbena::cm::id_table {
namespace {

constexpr ChannelId kChannel = 1;
constexpr std::size_t kShortHandles = IdTable::kFirstLongHandle - IdTable::kFirstHandle;

TEST(IdTableTest, AnIdIsFoundOnItsChannelOnly) {
  IdTable ids;
  const RdmaId& added = ids.add(kChannel);
  EXPECT_EQ(added.channel, kChannel);
  RdmaId* id = nullptr;
  EXPECT_EQ(ids.find(kChannel + 1, added.handle, id), EINVAL);
  EXPECT_EQ(ids.find(kChannel, added.handle + 1, id), ENOENT);
  EXPECT_EQ(id, nullptr);
  EXPECT_EQ(ids.find(kChannel, added.handle, id), 0);
  EXPECT_EQ(id, &added);
  EXPECT_EQ(ids.get(added.handle), &added);
  ids.erase(added.handle);
  EXPECT_EQ(ids.find(kChannel, IdTable::kFirstHandle, id), ENOENT);
  EXPECT_EQ(ids.get(IdTable::kFirstHandle), nullptr);
  EXPECT_EQ(ids.size(), 0u);
}

TEST(IdTableTest, ANumberComesBackWhenAllOthersWereUsed) {
  IdTable ids;
  const IdHandle kept = ids.add(kChannel).handle;
  EXPECT_EQ(kept, IdTable::kFirstHandle);
  for (std::size_t i = 1; i < kShortHandles; ++i) {
    const IdHandle next = ids.add(kChannel).handle;
    ASSERT_EQ(next, kept + i);
    ids.erase(next);
  }
  EXPECT_EQ(ids.add(kChannel).handle, kept + 1) << "the first is still taken";
}

TEST(IdTableTest, WhenTheShortNumbersAreTakenTheyBecomeLonger) {
  IdTable ids;
  for (std::size_t i = 0; i < kShortHandles; ++i) ids.add(kChannel);
  EXPECT_EQ(ids.add(kChannel).handle, IdTable::kFirstLongHandle);
  EXPECT_EQ(ids.add(kChannel).handle, IdTable::kFirstLongHandle + 1);
  for (const IdHandle handle : {0x9000u, 0x9001u, 0x9002u}) ids.erase(handle);
  EXPECT_EQ(ids.add(kChannel).handle, 0x9000u);
  EXPECT_EQ(ids.add(kChannel).handle, IdTable::kFirstLongHandle + 2) << "so many are taken";
  EXPECT_TRUE(ids.is_consistent());
}

TEST(IdTableTest, ThoseBehindANumberComeInTheirOrder) {
  IdTable ids;
  for (int i = 0; i < 5; ++i) ids.add(kChannel);
  const auto numbers = [&](IdHandle after, std::size_t most) {
    std::vector<IdHandle> found;
    for (const RdmaId* id : ids.behind(after, most)) found.push_back(id->handle);
    return found;
  };
  constexpr IdHandle kFirst = IdTable::kFirstHandle;
  EXPECT_EQ(numbers(0, 2), (std::vector<IdHandle>{kFirst, kFirst + 1}));
  EXPECT_EQ(numbers(kFirst + 1, 9), (std::vector<IdHandle>{kFirst + 2, kFirst + 3, kFirst + 4}));
  EXPECT_TRUE(numbers(kFirst + 4, 9).empty());
}

TEST(IdTableTest, AConnectionLeadsToItsId) {
  IdTable ids;
  RdmaId& id = ids.add(kChannel);
  EXPECT_EQ(ids.with_comm(77), nullptr);
  ids.connect(id, 77);
  EXPECT_EQ(id.comm, 77u);
  EXPECT_EQ(ids.with_comm(77), &id);
  EXPECT_TRUE(ids.is_consistent());
  ids.disconnect(id);
  EXPECT_EQ(id.comm, 0u);
  EXPECT_EQ(ids.with_comm(77), nullptr);
  EXPECT_TRUE(ids.is_consistent());
}

TEST(IdTableTest, ConnectionsAndIdsNameEachOther) {
  IdTable ids;
  RdmaId& id = ids.add(kChannel);
  id.comm = 77;
  EXPECT_FALSE(ids.is_consistent()) << "no way back";
  ids.connect(id, 77);
  id.comm = 0;
  EXPECT_FALSE(ids.is_consistent());
  ids.erase(id.handle);
  EXPECT_FALSE(ids.is_consistent()) << "of nobody";
}

}  // namespace
}  // namespace verbena::cm::id_table
