// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/preload/netlink_message.hpp"

#include <gtest/gtest.h>
#include <linux/netlink.h>

namespace verbena::preload {
namespace {

using Bytes = std::vector<std::uint8_t>;

TEST(NetlinkMessage, WrittenAndReadBack) {
  NetlinkWriter writer(0x1401, NLM_F_REQUEST, 7, 99);
  writer.put_u32(1, 0x40000000);
  writer.put_string(2, "verbena0");
  writer.put_u64(3, 0x1122334455667788);
  const Bytes bytes = writer.take();
  const auto messages = parse_netlink(bytes);
  ASSERT_EQ(messages.size(), 1u);
  const NetlinkMessage& m = messages[0];
  EXPECT_EQ(m.type, 0x1401);
  EXPECT_EQ(m.flags, NLM_F_REQUEST);
  EXPECT_EQ(m.sequence, 7u);
  EXPECT_EQ(m.port, 99u);
  EXPECT_EQ(m.attribute_u32(1), 0x40000000u);
  EXPECT_EQ(m.attribute_string(2), "verbena0");
  EXPECT_EQ(m.attribute(3)->size(), 8u);
  EXPECT_FALSE(m.attribute(4));
}

TEST(NetlinkMessage, NestsHoldWhatIsPutBetween) {
  NetlinkWriter writer(1, 0, 0, 0);
  const std::size_t nest = writer.begin_nest(5);
  writer.put_u32(6, 42);
  writer.end_nest(nest);
  writer.put_u32(7, 43);
  const Bytes bytes = writer.take();
  const NetlinkMessage outer = parse_netlink(bytes).at(0);
  NetlinkMessage inner;
  inner.payload = *outer.attribute(5);
  EXPECT_EQ(inner.attribute_u32(6), 42u);
  EXPECT_FALSE(inner.attribute(7));
  EXPECT_EQ(outer.attribute_u32(7), 43u);
}

TEST(NetlinkMessage, SeveralInOneDatagram) {
  Bytes all;
  for (std::uint32_t i = 0; i < 3; ++i) {
    NetlinkWriter writer(1, 0, i, 0);
    writer.put_string(1, std::string(i + 1, 'x'));  // lengths that need padding
    const Bytes one = writer.take();
    all.insert(all.end(), one.begin(), one.end());
  }
  const auto messages = parse_netlink(all);
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[2].sequence, 2u);
  EXPECT_EQ(messages[2].attribute_string(1), "xxx");
}

TEST(NetlinkMessage, CutAtEveryLength) {
  NetlinkWriter writer(1, 0, 0, 0);
  writer.put_u32(1, 5);
  const Bytes bytes = writer.take();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_TRUE(parse_netlink({bytes.data(), size}).empty()) << size;
  }
}

TEST(NetlinkMessage, AttributesThatLie) {
  NetlinkWriter writer(1, 0, 0, 0);
  writer.put_u32(1, 5);
  Bytes bytes = writer.take();
  for (const std::uint8_t length : {0, 3, 9, 255}) {
    bytes[kNetlinkHeaderSize] = length;
    EXPECT_FALSE(parse_netlink(bytes).at(0).attribute(1)) << int{length};
  }
  bytes[kNetlinkHeaderSize] = 6;
  EXPECT_TRUE(parse_netlink(bytes).at(0).attribute(1));
  EXPECT_FALSE(parse_netlink(bytes).at(0).attribute_u32(1));
}

TEST(NetlinkMessage, StringsEndAtTheFirstNul) {
  NetlinkWriter writer(1, 0, 0, 0);
  writer.put_string(1, std::string_view("ab\0cd", 5));
  const Bytes bytes = writer.take();
  EXPECT_EQ(parse_netlink(bytes).at(0).attribute_string(1), "ab");
}

TEST(NetlinkReplies, DatagramsStaySmall) {
  NetlinkReplies replies;
  for (int i = 0; i < 100; ++i) {
    NetlinkWriter writer(1, 0, 0, 0);
    writer.put_string(1, std::string(200, 'x'));
    replies.pack(writer.take());
  }
  EXPECT_GT(replies.datagrams.size(), 1u);
  std::size_t messages = 0;
  for (const Bytes& datagram : replies.datagrams) {
    EXPECT_LE(datagram.size(), NetlinkReplies::kDatagramMax);
    messages += parse_netlink(datagram).size();
  }
  EXPECT_EQ(messages, 100u);
}

}  // namespace
}  // namespace verbena::preload
