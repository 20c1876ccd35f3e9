// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/base/address.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace verbena {
namespace {

// Returns how to_string() shows the address of this text, or "refused".
std::string parsed(std::string_view text) {
  const auto address = IpAddress::parse(text);
  return address ? address->to_string() : "refused";
}

TEST(AddressText, AnIpv4AddressIsFourOctets) {
  EXPECT_EQ(parsed("0.0.0.0"), "0.0.0.0");
  EXPECT_EQ(parsed("10.20.30.40"), "10.20.30.40");
  EXPECT_EQ(parsed("255.255.255.255"), "255.255.255.255");
  EXPECT_TRUE(IpAddress::parse("127.0.0.1")->is_v4_loopback());
  for (const char* text : {"1.2.3", "1.2.3.4.5", "1.2.3.", ".1.2.3", "1..2.3", "1.2.3.256",
                           "1.2.3.1000", "1.2.3.04", "1.2.3.00", "0x1.2.3.4", "1.2.3.-4"}) {
    EXPECT_EQ(parsed(text), "refused") << text;
  }
}

TEST(AddressText, AnIpv6AddressIsEightGroups) {
  EXPECT_EQ(parsed("1:2:3:4:5:6:7:8"), "0001:0002:0003:0004:0005:0006:0007:0008");
  EXPECT_EQ(parsed("fe80:0000:0000:0000:0256:42ff:fe00:0001"),
            "fe80:0000:0000:0000:0256:42ff:fe00:0001");
  EXPECT_EQ(parsed("ABCD:ef01:0:0:0:0:0:0"), "abcd:ef01:0000:0000:0000:0000:0000:0000");
  for (const char* text :
       {"1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8:", ":2:3:4:5:6:7:8",
        "1:2:3:4:5:6:7:00008", "1:2:3:4:5:6:7:g", "1:2:3:4:5:6:7:", ":", "1"}) {
    EXPECT_EQ(parsed(text), "refused") << text;
  }
}

TEST(AddressText, TwoColonsStandForOneGroupOfZerosOrMore) {
  EXPECT_EQ(parsed("::"), "0000:0000:0000:0000:0000:0000:0000:0000");
  EXPECT_EQ(parsed("::1"), "0000:0000:0000:0000:0000:0000:0000:0001");
  EXPECT_EQ(parsed("fe80::"), "fe80:0000:0000:0000:0000:0000:0000:0000");
  EXPECT_EQ(parsed("1::8"), "0001:0000:0000:0000:0000:0000:0000:0008");
  EXPECT_EQ(parsed("1:2:3:4:5:6:7::"), "0001:0002:0003:0004:0005:0006:0007:0000");
  EXPECT_EQ(parsed("::2:3:4:5:6:7:8"), "0000:0002:0003:0004:0005:0006:0007:0008");
  for (const char* text : {":::", "1:::2", "1::2::3", "1:2:3:4::5:6:7:8", "1::2:", ":1::2"}) {
    EXPECT_EQ(parsed(text), "refused") << text;
  }
}

TEST(AddressText, TheLastTwoGroupsMayBeADottedQuad) {
  EXPECT_EQ(parsed("::ffff:1.2.3.4"), "1.2.3.4");
  EXPECT_EQ(parsed("64:ff9b::192.0.2.33"), "0064:ff9b:0000:0000:0000:0000:c000:0221");
  EXPECT_EQ(parsed("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255"),
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
  for (const char* text : {"::1.2.3.4:5", "1:2:3:4:5:6:7:1.2.3.4", "1:2:3:4:5:1.2.3.4",
                           "1:2:3:4:5:6::1.2.3.4", "::1.2.3", "::01.2.3.4"}) {
    EXPECT_EQ(parsed(text), "refused") << text;
  }
}

TEST(AddressText, NothingStandsBesideTheAddress) {
  for (const std::string_view text :
       {"", " ", " 1.2.3.4", "1.2.3.4 ", "1.2.3.4/24", "fe80::1%eth0", "fe80::1%2", "[::1]", "host",
        "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.2550"}) {
    EXPECT_EQ(parsed(text), "refused") << text;
  }
  EXPECT_EQ(parsed(std::string_view("1.2.3.4\0", 8)), "refused");
  EXPECT_EQ(parsed(std::string_view("::1\0junk", 8)), "refused");
  EXPECT_EQ(parsed(std::string_view("\0", 1)), "refused");
  EXPECT_EQ(parsed(std::string(5000, '1')), "refused");
  // The text need not end where its memory ends.
  EXPECT_EQ(parsed(std::string_view("1.2.3.45", 7)), "1.2.3.4");
}

}  // namespace
}  // namespace verbena
