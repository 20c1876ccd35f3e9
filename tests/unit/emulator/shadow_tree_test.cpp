// SPDX-License-Identifier: BSD-2-Clause
// The files that other programs read, spelt as the kernel spells them.
#include "verbena/fabric/shadow_tree.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "verbena/fabric/plan.hpp"

namespace verbena::fabric {
namespace {

namespace fs = std::filesystem;

class ShadowTreeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/verbena-shadow-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    home_ = name;
    tree_ = ShadowTree(home_ + "/shadow");
    settings::Settings wishes;
    wishes.roce = {*IpAddress::parse("127.0.0.1")};
    wishes.devices = {"rocky", "verbena0"};
    const auto devices = plan_devices(
        wishes, {0, "tulip", "0.1.0", {{*IpAddress::parse("127.0.0.1"), 8, "lo", 1, 65536, true}}});
    ASSERT_TRUE(devices.ok()) << devices.error().text;
    devices_ = *devices;
    ASSERT_TRUE(tree_.create(devices_).ok());
  }
  void TearDown() override { fs::remove_all(home_); }

  std::string read(const std::string& path) const {
    std::ifstream file(home_ + "/shadow/sys/class/" + path);
    std::ostringstream text;
    text << file.rdbuf();
    return file ? text.str() : "(missing)";
  }
  std::int64_t modified(const std::string& path) const {
    struct stat st {};
    EXPECT_EQ(::stat((home_ + "/shadow/sys/class/" + path).c_str(), &st), 0) << path;
    return st.st_mtim.tv_sec * 1'000'000'000 + st.st_mtim.tv_nsec;
  }

  std::string home_;
  ShadowTree tree_{""};
  std::vector<control::DeviceInfo> devices_;
};

TEST_F(ShadowTreeTest, WhatLibibverbsReads) {
  EXPECT_EQ(read("infiniband_verbs/abi_version"), "6\n");
  EXPECT_EQ(read("infiniband_verbs/uverbs193/ibdev"), "verbena0\n");
  EXPECT_EQ(read("infiniband_verbs/uverbs193/dev"), "231:385\n");
  EXPECT_EQ(read("infiniband/verbena0/node_type"), "1: CA\n");
  EXPECT_EQ(read("infiniband/verbena0/node_guid"), "0256:5201:7f01:0001\n");
  EXPECT_EQ(read("infiniband/verbena0/fw_ver"), "0.1.0\n");
  EXPECT_TRUE(fs::exists(home_ + "/shadow/dev/infiniband/uverbs192"));
}

TEST_F(ShadowTreeTest, WhatIbstatReads) {
  const std::string port = "infiniband/verbena0/ports/1/";
  EXPECT_EQ(read(port + "state"), "4: ACTIVE\n");
  EXPECT_EQ(read(port + "phys_state"), "5: LinkUp\n");
  EXPECT_EQ(read(port + "rate"), "100 Gb/sec (4X EDR)\n");
  EXPECT_EQ(read(port + "link_layer"), "InfiniBand\n");
  EXPECT_EQ(read(port + "lid"), "0x1\n");
  EXPECT_EQ(read(port + "sm_lid"), "0x1\n");
  EXPECT_EQ(read(port + "lid_mask_count"), "0\n");
  EXPECT_EQ(read(port + "cap_mask"), "0x02014800\n");
  EXPECT_EQ(read(port + "gids/0"), "fe80:0000:0000:0000:0256:5200:7f01:0001\n");
  EXPECT_EQ(read(port + "pkeys/0"), "0xffff\n");
  EXPECT_EQ(read(port + "gid_attrs/types/0"), "IB/RoCE v1\n");
}

TEST_F(ShadowTreeTest, WhatRoceReadersRead) {
  const std::string port = "infiniband/rocky/ports/1/";
  EXPECT_EQ(read(port + "link_layer"), "Ethernet\n");
  EXPECT_EQ(read(port + "lid"), "0x0\n");
  EXPECT_EQ(read(port + "gid_attrs/types/2"), "IB/RoCE v1\n");
  EXPECT_EQ(read(port + "gid_attrs/types/3"), "RoCE v2\n");
  EXPECT_EQ(read(port + "gids/3"), "0000:0000:0000:0000:0000:ffff:7f00:0001\n");
  EXPECT_EQ(read(port + "gid_attrs/ndevs/0"), "lo\n");
  EXPECT_EQ(fs::read_symlink(home_ + "/shadow/sys/class/infiniband/rocky/device/net/lo"),
            "/sys/class/net/lo");
  EXPECT_EQ(read("infiniband/rocky/device/numa_node"), "-1\n");
}

TEST_F(ShadowTreeTest, ContentsChangeButNoDirectory) {
  const std::vector<std::string> dirs{"infiniband",
                                      "infiniband_verbs",
                                      "infiniband/verbena0",
                                      "infiniband/verbena0/ports/1",
                                      "infiniband/verbena0/ports/1/counters",
                                      "infiniband/rocky",
                                      "infiniband/rocky/ports/1"};
  std::vector<std::int64_t> before;
  for (const std::string& dir : dirs) before.push_back(modified(dir));
  Totals totals;
  totals.port[static_cast<std::size_t>(PortCounter::kXmitBytes)] = 4000;
  totals.drops[static_cast<std::size_t>(DropReason::kBadIcrc)] = 7;
  tree_.write_counters(devices_[1], totals);
  EXPECT_EQ(read("infiniband/verbena0/ports/1/counters/port_xmit_data"), "1000\n");
  EXPECT_EQ(read("infiniband/verbena0/ports/1/counters/port_rcv_errors"), "7\n");
  EXPECT_EQ(read("infiniband/verbena0/ports/1/hw_counters/rx_drop_bad_icrc"), "7\n");
  // The new text is shorter than before. Nothing of the old text stays.
  tree_.write_counters(devices_[1], Totals{});
  EXPECT_EQ(read("infiniband/verbena0/ports/1/counters/port_xmit_data"), "0\n");
  devices_[1].port_state = control::PortState::kDown;
  tree_.write_port(devices_[1]);
  EXPECT_EQ(read("infiniband/verbena0/ports/1/state"), "1: DOWN\n");
  control::GidEntry& row = devices_[0].gids[4];
  const std::string rocky = "infiniband/rocky/ports/1/";
  row = {Gid::from_ip(*IpAddress::parse("10.1.0.7")), control::GidType::kRoceV1, 2, "eth0"};
  tree_.write_port(devices_[0]);
  EXPECT_EQ(read(rocky + "gids/4"), "0000:0000:0000:0000:0000:ffff:0a01:0007\n");
  EXPECT_EQ(read(rocky + "gid_attrs/ndevs/4"), "eth0\n");
  row = {Gid{}, control::GidType::kRoceV1, 0, ""};
  tree_.write_port(devices_[0]);
  EXPECT_EQ(read(rocky + "gids/4"), "0000:0000:0000:0000:0000:0000:0000:0000\n");
  EXPECT_EQ(read(rocky + "gid_attrs/ndevs/4"), "(missing)");
  for (std::size_t i = 0; i < dirs.size(); ++i) EXPECT_EQ(modified(dirs[i]), before[i]) << dirs[i];
}

TEST_F(ShadowTreeTest, ItIsReplacedAndRemovedWhole) {
  ASSERT_TRUE(tree_.create({devices_[0]}).ok());
  EXPECT_EQ(read("infiniband/verbena0/node_type"), "(missing)");
  EXPECT_EQ(read("infiniband/rocky/node_type"), "1: CA\n");
  tree_.remove();
  EXPECT_FALSE(fs::exists(home_ + "/shadow"));
  tree_.write_counters(devices_[0], Totals{});  // the file does not exist, so nothing happens
  EXPECT_FALSE(fs::exists(home_ + "/shadow"));
}

TEST_F(ShadowTreeTest, NoRoomIsAnError) {
  ShadowTree nowhere("/proc/verbena-shadow");
  EXPECT_FALSE(nowhere.create(devices_).ok());
}

}  // namespace
}  // namespace verbena::fabric
