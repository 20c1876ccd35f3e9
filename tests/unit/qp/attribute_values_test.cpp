// SPDX-License-Identifier: BSD-2-Clause
// The range of each attribute, at its edges. `apply` copies exactly what the mask names.
#include <gmock/gmock.h>

#include <functional>
#include <vector>

#include "transition_fixture.hpp"

namespace verbena::qp {
namespace {

using namespace testing;  // the shared names of these tests
using ::testing::HasSubstr;

constexpr std::uint32_t kToInit = kMaskState | kMaskPkeyIndex | kMaskPort | kMaskAccessFlags;
constexpr std::uint32_t kToRtr = kMaskState | kMaskPath | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn |
                                 kMaskMaxDestRdAtomic | kMaskMinRnrTimer;
constexpr std::uint32_t kToRts =
    kMaskState | kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskSqPsn | kMaskMaxRdAtomic;

using Edit = std::function<void(Attributes&)>;

// Each returns the refusal after one edit of good attributes, or nothing if they are allowed.
std::string to_init(const Edit& edit, const TransitionLimits& limits = {}) {
  Attributes a = good_attributes(State::kReset, State::kInit);
  edit(a);
  return attempt(Transport::kRc, State::kReset, a, kToInit, limits);
}
std::string to_rtr(const Edit& edit, const TransitionLimits& limits = {}) {
  Attributes a = good_attributes(State::kInit, State::kRtr);
  edit(a);
  return attempt(Transport::kRc, State::kInit, a, kToRtr, limits);
}
std::string to_rts(const Edit& edit, std::uint32_t also = 0, const TransitionLimits& limits = {}) {
  Attributes a = good_attributes(State::kRtr, State::kRts);
  edit(a);
  return attempt(Transport::kRc, State::kRtr, a, kToRts | also, limits);
}
std::string with_path(const PathAttributes& path, const TransitionLimits& limits = {}) {
  return to_rtr([&](Attributes& a) { a.path = path; }, limits);
}

TEST(AttributeValues, Port) {
  TransitionLimits limits;
  const auto port = [&](std::uint8_t number) {
    return to_init([=](Attributes& a) { a.port = number; }, limits);
  };
  EXPECT_EQ(port(1), "");
  EXPECT_THAT(port(0), HasSubstr("IBV_QP_PORT: port_num is 0; the device's only port is 1"));
  EXPECT_THAT(port(2), HasSubstr("port_num is 2"));
  limits.ports = 2;
  EXPECT_EQ(port(2), "");
  EXPECT_THAT(port(3), HasSubstr("the device has ports 1 to 2"));
}

TEST(AttributeValues, PkeyIndex) {
  TransitionLimits limits;
  const auto index = [&](std::uint16_t i) {
    return to_init([=](Attributes& a) { a.pkey_index = i; }, limits);
  };
  EXPECT_EQ(index(0), "");
  EXPECT_THAT(index(1), HasSubstr("IBV_QP_PKEY_INDEX: pkey_index is 1; the port's P_Key table has "
                                  "1 entry (index 0)"));
  limits.pkeys = 128;
  EXPECT_EQ(index(127), "");
  EXPECT_THAT(index(128), HasSubstr("128 entries"));
}

TEST(AttributeValues, AccessFlagsMayBeThoseOfARegion) {
  const auto flags = [](std::uint32_t value) {
    return to_init([=](Attributes& a) { a.access_flags = value; });
  };
  EXPECT_EQ(flags(0), "");
  EXPECT_EQ(flags(0x3ff), "") << "all of ibv_access_flags";
  EXPECT_EQ(flags(1u << 20), "") << "relaxed ordering is in the optional range";
  EXPECT_THAT(flags(1u << 10), HasSubstr("IBV_QP_ACCESS_FLAGS: qp_access_flags has the unknown "
                                         "bits 0x400"));
}

TEST(AttributeValues, PathMtu) {
  TransitionLimits limits;
  const auto mtu = [&](unsigned code) {
    return to_rtr([=](Attributes& a) { a.path_mtu = static_cast<Mtu>(code); }, limits);
  };
  for (unsigned code = 1; code <= 5; ++code) EXPECT_EQ(mtu(code), "");
  for (unsigned code : {0u, 6u, 255u}) {
    EXPECT_THAT(mtu(code), HasSubstr("path_mtu is " + std::to_string(code) + "; expected is"));
  }
  limits.active_mtu = Mtu::k1024;
  EXPECT_EQ(mtu(3), "");
  EXPECT_THAT(mtu(4), HasSubstr("IBV_QP_PATH_MTU: path_mtu is 2048 bytes; the port's active_mtu "
                                "is 1024"));
}

TEST(AttributeValues, SmallNumbersAtTheirEdges) {
  struct Case {
    const char* name;
    unsigned max;
    std::function<std::string(std::uint8_t)> modify;
  };
  const std::vector<Case> cases{
      {"IBV_QP_TIMEOUT: timeout", 31,
       [](std::uint8_t v) { return to_rts([=](Attributes& a) { a.timeout = v; }); }},
      {"IBV_QP_RETRY_CNT: retry_cnt", 7,
       [](std::uint8_t v) { return to_rts([=](Attributes& a) { a.retry_count = v; }); }},
      {"IBV_QP_RNR_RETRY: rnr_retry", 7,
       [](std::uint8_t v) { return to_rts([=](Attributes& a) { a.rnr_retry = v; }); }},
      {"IBV_QP_MAX_QP_RD_ATOMIC: max_rd_atomic", 16,
       [](std::uint8_t v) { return to_rts([=](Attributes& a) { a.max_rd_atomic = v; }); }},
      {"IBV_QP_MIN_RNR_TIMER: min_rnr_timer", 31,
       [](std::uint8_t v) { return to_rtr([=](Attributes& a) { a.min_rnr_timer = v; }); }},
      {"IBV_QP_MAX_DEST_RD_ATOMIC: max_dest_rd_atomic", 16,
       [](std::uint8_t v) { return to_rtr([=](Attributes& a) { a.max_dest_rd_atomic = v; }); }},
      {"IBV_QP_ALT_PATH: alt_timeout", 31,
       [](std::uint8_t v) {
         return to_rts([=](Attributes& a) { a.alternate_timeout = v; }, kMaskAlternatePath);
       }},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(c.modify(0), "") << c.name;
    EXPECT_EQ(c.modify(static_cast<std::uint8_t>(c.max)), "") << c.name;
    for (unsigned value : {c.max + 1, 255u}) {
      EXPECT_THAT(c.modify(static_cast<std::uint8_t>(value)),
                  HasSubstr(std::string(c.name) + " is " + std::to_string(value) +
                            "; expected is at most " + std::to_string(c.max)));
    }
  }
}

TEST(AttributeValues, ReadsInFlightFollowTheDevicesLimits) {
  TransitionLimits limits;
  limits.max_rd_atomic = 4;
  limits.max_dest_rd_atomic = 2;
  EXPECT_THAT(to_rts([](Attributes& a) { a.max_rd_atomic = 5; }, 0, limits),
              HasSubstr("at most 4 (ibv_device_attr.max_qp_init_rd_atom)"));
  EXPECT_THAT(to_rtr([](Attributes& a) { a.max_dest_rd_atomic = 3; }, limits),
              HasSubstr("at most 2 (ibv_device_attr.max_qp_rd_atom)"));
}

TEST(AttributeValues, OnlyTheDeviceArmsMigration) {
  const auto set = [](Migration m) {
    return to_rts([=](Attributes& a) { a.migration = m; }, kMaskPathMigration);
  };
  EXPECT_EQ(set(Migration::kMigrated), "");
  EXPECT_EQ(set(Migration::kRearm), "");
  EXPECT_THAT(set(Migration::kArmed), HasSubstr("IBV_QP_PATH_MIG_STATE: path_mig_state is 2"));
  EXPECT_THAT(set(static_cast<Migration>(9)), HasSubstr("path_mig_state is 9"));
}

TEST(PathValues, LocalPathOnInfiniBand) {
  PathAttributes path = good_path();
  EXPECT_EQ(with_path(path), "");
  path.dlid = 0;
  EXPECT_THAT(with_path(path), HasSubstr("IBV_QP_AV: ah_attr.dlid is 0 and is_global is 0"));
  path.dlid = 0xbfff;
  EXPECT_EQ(with_path(path), "");
  path.dlid = 0xc000;
  EXPECT_THAT(with_path(path), HasSubstr("ah_attr.dlid is 0xc000"));
  path = good_path();
  path.remote_gid = Gid::link_local(1);
  path.gid_index = 200;
  path.flow_label = ~0u;
  EXPECT_EQ(with_path(path), "") << "the GRH's fields mean nothing without is_global";
}

TEST(PathValues, GlobalPath) {
  TransitionLimits limits;
  for (bool ethernet : {false, true}) {
    limits.ethernet = ethernet;
    limits.gids = 1;
    PathAttributes path = global_path();
    EXPECT_EQ(with_path(path, limits), "");
    path.gid_index = 1;
    EXPECT_THAT(with_path(path, limits),
                HasSubstr("ah_attr.grh.sgid_index is 1; the port's GID table has 1 entry"));
    limits.gids = 2;
    EXPECT_EQ(with_path(path, limits), "");
    path.has_local_gid = false;
    EXPECT_THAT(with_path(path, limits), HasSubstr("sgid_index is 1; that row of the port's GID "
                                                   "table is free"));
    path = global_path();
    path.remote_gid = {};
    EXPECT_THAT(with_path(path, limits), HasSubstr("grh.dgid is all zeros"));
    path.remote_gid.bytes[0] = 0xff;
    EXPECT_THAT(with_path(path, limits), HasSubstr("is the multicast GID ff00:"));
    path = global_path();
    path.flow_label = 0xfffff;
    EXPECT_EQ(with_path(path, limits), "");
    path.flow_label = 0x100000;
    EXPECT_THAT(with_path(path, limits), HasSubstr("flow_label is 0x100000"));
    path = global_path();
    path.dlid = 0;
    EXPECT_EQ(with_path(path, limits), "") << "the GID says where it goes";
  }
}

TEST(PathValues, EthernetNeedsAGlobalPath) {
  TransitionLimits limits;
  limits.ethernet = true;
  EXPECT_THAT(with_path(good_path(), limits),
              HasSubstr("ah_attr.is_global is 0; a port with link layer Ethernet (RoCE) needs "
                        "is_global = 1"));
}

TEST(PathValues, PortServiceLevelPathBitsAndRate) {
  PathAttributes path = good_path();
  path.port = 0;
  EXPECT_THAT(with_path(path), HasSubstr("IBV_QP_AV: ah_attr.port_num is 0"));
  path = good_path();
  path.service_level = 15;
  EXPECT_EQ(with_path(path), "");
  path.service_level = 16;
  EXPECT_THAT(with_path(path), HasSubstr("ah_attr.sl is 16"));
  path = good_path();
  for (const int bits : {1, 128}) {
    path.source_path_bits = static_cast<std::uint8_t>(bits);
    EXPECT_THAT(with_path(path), HasSubstr("ah_attr.src_path_bits is " + std::to_string(bits) +
                                           "; the port has one LID"));
  }
  path = good_path();
  for (const int rate : {0, 2, 24}) {
    path.static_rate = static_cast<std::uint8_t>(rate);
    EXPECT_EQ(with_path(path), "");
  }
  for (const int rate : {1, 25, 255}) {
    path.static_rate = static_cast<std::uint8_t>(rate);
    EXPECT_THAT(with_path(path), HasSubstr("ah_attr.static_rate is " + std::to_string(rate)));
  }
}

TEST(PathValues, APathThatLeadsNowhere) {
  PathAttributes path = good_path();
  path.resolved = false;
  EXPECT_THAT(with_path(path), HasSubstr("no route to LID 7 by this fabric's address plan"));
  path = global_path();
  path.resolved = false;
  EXPECT_THAT(with_path(path),
              HasSubstr("no route to GID fe80:0000:0000:0000:0256:5200:7f01:0002 by this"));
}

TEST(PathValues, TheAlternatePathIsHeldToTheSameRules) {
  const auto alternate = [](const Edit& edit) { return to_rts(edit, kMaskAlternatePath); };
  EXPECT_EQ(alternate([](Attributes&) {}), "");
  EXPECT_THAT(alternate([](Attributes& a) { a.alternate.port = 9; }),
              HasSubstr("IBV_QP_ALT_PATH: alt_port_num is 9"));
  EXPECT_THAT(alternate([](Attributes& a) { a.alternate.dlid = 0; }),
              HasSubstr("IBV_QP_ALT_PATH: alt_ah_attr.dlid is 0"));
  EXPECT_THAT(alternate([](Attributes& a) { a.alternate.resolved = false; }),
              HasSubstr("IBV_QP_ALT_PATH: alt_ah_attr: no route to LID 7"));
  EXPECT_THAT(alternate([](Attributes& a) { a.alternate_pkey_index = 1; }),
              HasSubstr("alt_pkey_index is 1"));
}

TEST(AttributeValues, WhatTheMaskLeavesOutIsNotLookedAt) {
  Attributes garbage;
  garbage.state = State::kInit;
  garbage.port = 1;
  garbage.path.port = 77;
  garbage.path_mtu = static_cast<Mtu>(99);
  garbage.timeout = garbage.retry_count = garbage.rnr_retry = garbage.min_rnr_timer = 255;
  garbage.max_rd_atomic = garbage.max_dest_rd_atomic = garbage.alternate_timeout = 255;
  garbage.migration = static_cast<Migration>(200);
  EXPECT_EQ(attempt(Transport::kRc, State::kReset, garbage, kToInit), "");
}

TEST(Apply, CopiesExactlyWhatTheMaskNames) {
  Attributes all = good_attributes(State::kRtr, State::kRts);
  all.sqd_notify = true;
  all.access_flags = 6;
  all.pkey_index = 3;
  all.rq_psn = Psn(100);
  all.sq_psn = Psn(200);
  all.alternate_pkey_index = 4;
  all.rate_limit = 9;
  struct Case {
    std::uint32_t bit;
    std::function<bool(const Attributes&)> is_set;
  };
  const std::vector<Case> cases{
      {kMaskState, [](const Attributes& a) { return a.state == State::kRts; }},
      {kMaskSqdNotify, [](const Attributes& a) { return a.sqd_notify; }},
      {kMaskAccessFlags, [](const Attributes& a) { return a.access_flags == 6; }},
      {kMaskPkeyIndex, [](const Attributes& a) { return a.pkey_index == 3; }},
      {kMaskPort, [](const Attributes& a) { return a.port == 1; }},
      {kMaskQkey, [](const Attributes& a) { return a.qkey == 0x11111111; }},
      {kMaskPath, [](const Attributes& a) { return a.path.dlid == 7; }},
      {kMaskPathMtu, [](const Attributes& a) { return a.path_mtu == Mtu::k1024; }},
      {kMaskTimeout, [](const Attributes& a) { return a.timeout == 14; }},
      {kMaskRetryCount, [](const Attributes& a) { return a.retry_count == 7; }},
      {kMaskRnrRetry, [](const Attributes& a) { return a.rnr_retry == 7; }},
      {kMaskRqPsn, [](const Attributes& a) { return a.rq_psn == Psn(100); }},
      {kMaskMaxRdAtomic, [](const Attributes& a) { return a.max_rd_atomic == 1; }},
      {kMaskAlternatePath,
       [](const Attributes& a) {
         return a.alternate.dlid == 7 && a.alternate_pkey_index == 4 && a.alternate_timeout == 14;
       }},
      {kMaskMinRnrTimer, [](const Attributes& a) { return a.min_rnr_timer == 12; }},
      {kMaskSqPsn, [](const Attributes& a) { return a.sq_psn == Psn(200); }},
      {kMaskMaxDestRdAtomic, [](const Attributes& a) { return a.max_dest_rd_atomic == 1; }},
      {kMaskPathMigration, [](const Attributes& a) { return a.migration == Migration::kRearm; }},
      {kMaskDestQpn, [](const Attributes& a) { return a.dest_qpn == Qpn(0x11); }},
      {kMaskRateLimit, [](const Attributes& a) { return a.rate_limit == 9; }},
  };
  for (const Case& c : cases) {
    Attributes to;
    apply(to, all, c.bit);
    for (const Case& other : cases) EXPECT_EQ(other.is_set(to), other.bit == c.bit) << other.bit;
  }
  Attributes everything;
  apply(everything, all, ~0u);
  for (const Case& c : cases) EXPECT_TRUE(c.is_set(everything)) << c.bit;
  EXPECT_EQ(everything.current_state, State::kReset) << "cur_qp_state asserts and sets nothing";
}

TEST(StateNames, EachHasOne) {
  EXPECT_STREQ(to_string(State::kReset), "RESET");
  EXPECT_STREQ(to_string(State::kError), "ERR");
  EXPECT_STREQ(to_string(static_cast<State>(7)), "UNKNOWN");
}

}  // namespace
}  // namespace verbena::qp
