// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/preload/paths.hpp"

#include <gtest/gtest.h>

namespace verbena::preload {
namespace {

TEST(Paths, NormaliseDropsWhatDoesNotLead) {
  EXPECT_EQ(normalise("/"), "/");
  EXPECT_EQ(normalise("//sys/./class//infiniband/"), "/sys/class/infiniband");
  EXPECT_EQ(normalise("/sys/class/net/../infiniband/a/.."), "/sys/class/infiniband");
  EXPECT_EQ(normalise("/../../dev"), "/dev");
  EXPECT_EQ(normalise("/a/.."), "/");
  EXPECT_EQ(normalise("/..."), "/...");
}

TEST(Paths, EachRootIsFound) {
  EXPECT_EQ(place_of("/sys/class/infiniband").root, Root::kInfiniBand);
  EXPECT_EQ(place_of("/sys/class/infiniband_verbs").root, Root::kVerbs);
  EXPECT_EQ(place_of("/sys/class/infiniband_mad").root, Root::kMad);
  EXPECT_EQ(place_of("/dev/infiniband").root, Root::kDev);
  EXPECT_TRUE(place_of("/dev/infiniband").is_root());
}

TEST(Paths, EntryAndRest) {
  const std::string path = "/sys/class/infiniband/verbena0/ports/1/state";
  const Place place = place_of(path);
  EXPECT_EQ(place.root, Root::kInfiniBand);
  EXPECT_EQ(place.name, "verbena0");
  EXPECT_EQ(place.rest, "/ports/1/state");
  EXPECT_FALSE(place.is_root());
  const Place node = place_of("/dev/infiniband/uverbs192");
  EXPECT_EQ(node.name, "uverbs192");
  EXPECT_TRUE(node.rest.empty());
}

TEST(Paths, NeighboursAreNotOurs) {
  for (const char* path : {"/", "/sys", "/sys/class", "/sys/class/infiniband_qib/x",
                           "/sys/class/infinibandx", "/sys/class/infiniband_srp", "/dev",
                           "/dev/infiniband2/uverbs0", "/tmp/sys/class/infiniband"}) {
    EXPECT_EQ(place_of(path).root, Root::kNone) << path;
  }
}

TEST(Paths, TheQuickQuestionMissesNothing) {
  for (const Root root : {Root::kInfiniBand, Root::kVerbs, Root::kMad, Root::kDev}) {
    EXPECT_TRUE(may_concern(std::string(directory_of(root)).c_str()));
  }
  EXPECT_TRUE(may_concern("/sys/class/misc/rdma_cm/abi_version"));
  EXPECT_TRUE(may_concern("uverbs192"));
  EXPECT_FALSE(may_concern("/etc/passwd"));
  EXPECT_FALSE(may_concern(""));
}

TEST(Paths, OnlyClassesOfOursAreListedAsUnions) {
  EXPECT_TRUE(has_union(Root::kInfiniBand));
  EXPECT_TRUE(has_union(Root::kDev));
  EXPECT_FALSE(has_union(Root::kMisc));
  EXPECT_FALSE(has_union(Root::kNone));
}

TEST(Paths, CountersAreTold) {
  EXPECT_TRUE(is_counter(place_of("/sys/class/infiniband/v/ports/1/counters/port_xmit_data")));
  EXPECT_TRUE(is_counter(place_of("/sys/class/infiniband/v/ports/1/hw_counters")));
  EXPECT_FALSE(is_counter(place_of("/sys/class/infiniband/v/ports/1/state")));
}

}  // namespace
}  // namespace verbena::preload
