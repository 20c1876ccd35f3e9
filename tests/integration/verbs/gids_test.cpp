// SPDX-License-Identifier: BSD-2-Clause
// The GID table: all ways to query it agree, and each row can be used.
#include <dlfcn.h>
#include <net/if.h>

#include <fstream>

#include "verbs_fixture.hpp"

namespace verbs_test {
namespace {

// enum ibv_gid_type_sysfs, which is private to libibverbs.
enum SysfsType { kV1 = 0, kV2 = 1 };
using QueryType = int (*)(ibv_context*, std::uint8_t, unsigned, SysfsType*);

class Gids : public Verbs {
 protected:
  std::string line_of(const std::string& path) {
    std::ifstream file(std::string("/sys/class/infiniband/") +
                       ibv_get_device_name(context_->device) + "/ports/1/" + path);
    std::string line;
    std::getline(file, line);
    return line;
  }
  static std::string text_of(const ibv_gid& gid) {
    std::string text;
    char part[8];
    for (int i = 0; i < 16; i += 2) {
      std::snprintf(part, sizeof part, "%s%02x%02x", i == 0 ? "" : ":", gid.raw[i], gid.raw[i + 1]);
      text += part;
    }
    return text;
  }
  std::vector<ibv_gid_entry> table() {
    std::vector<ibv_gid_entry> entries(static_cast<std::size_t>(port_.gid_tbl_len));
    const ssize_t used = ibv_query_gid_table(context_, entries.data(), entries.size(), 0);
    EXPECT_GE(used, 1);
    entries.resize(static_cast<std::size_t>(used));
    return entries;
  }
};

TEST_F(Gids, AllWaysOfAskingAgree) {
  const auto query_type = reinterpret_cast<QueryType>(::dlsym(RTLD_DEFAULT, "ibv_query_gid_type"));
  ASSERT_NE(query_type, nullptr);
  std::vector<ibv_gid_entry> left = table();
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(port_.gid_tbl_len); ++i) {
    const std::string index = std::to_string(i);
    ibv_gid gid{};
    ASSERT_EQ(ibv_query_gid(context_, 1, static_cast<int>(i), &gid), 0);
    EXPECT_EQ(text_of(gid), line_of("gids/" + index));
    const bool is_free = gid.global.interface_id == 0 && gid.global.subnet_prefix == 0;
    ibv_gid_entry entry{};
    ASSERT_EQ(ibv_query_gid_ex(context_, 1, i, &entry, 0), is_free ? ENODATA : 0) << i;
    if (is_free) {
      EXPECT_EQ(line_of("gid_attrs/ndevs/" + index), "");
      continue;
    }
    EXPECT_EQ(std::memcmp(&entry.gid, &gid, sizeof gid), 0);
    EXPECT_EQ(entry.gid_index, i);
    SysfsType type{};
    ASSERT_EQ(query_type(context_, 1, i, &type), 0);
    EXPECT_EQ(type, entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? kV2 : kV1);
    EXPECT_EQ(line_of("gid_attrs/types/" + index), type == kV2 ? "RoCE v2" : "IB/RoCE v1");
    const std::string interface = line_of("gid_attrs/ndevs/" + index);
    EXPECT_EQ(entry.ndev_ifindex, ::if_nametoindex(interface.c_str()));
    ASSERT_FALSE(left.empty());
    EXPECT_EQ(std::memcmp(&left.front(), &entry, sizeof entry), 0) << i;
    left.erase(left.begin());
  }
  EXPECT_TRUE(left.empty());
}

TEST_F(Gids, AreThoseOfAnAdapter) {
  const std::vector<ibv_gid_entry> entries = table();
  if (is_infiniband()) {
    ASSERT_EQ(entries.size(), 1u);
    EXPECT_EQ(entries[0].gid_type, static_cast<std::uint32_t>(IBV_GID_TYPE_IB));
    return;
  }
  ASSERT_GE(entries.size(), 4u);
  constexpr std::uint8_t kV4Mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  for (std::uint32_t i = 0; i < 4; ++i) {
    const ibv_gid_entry& e = entries[i];
    EXPECT_EQ(e.gid_index, i);
    EXPECT_EQ(e.gid_type,
              static_cast<std::uint32_t>(i % 2 == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2));
    const bool is_v4 = std::memcmp(e.gid.raw, kV4Mapped, sizeof kV4Mapped) == 0;
    EXPECT_EQ(is_v4, i >= 2);
    EXPECT_TRUE(is_v4 || (e.gid.raw[0] == 0xfe && e.gid.raw[1] == 0x80));
  }
}

TEST_F(Gids, EachRowLeadsToEachOther) {
  const std::vector<ibv_gid_entry> entries = table();
  for (const ibv_gid_entry& from : entries) {
    for (const ibv_gid_entry& to : entries) {
      gid_ = to.gid;
      gid_index_ = static_cast<std::uint8_t>(from.gid_index);
      connect();
      receive(right_);
      post(left_, request());
      EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
      EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
    }
  }
}

}  // namespace
}  // namespace verbs_test
