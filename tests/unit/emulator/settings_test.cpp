// SPDX-License-Identifier: BSD-2-Clause
// The words of the TOML file and of the options, and how errors name them. The integration tests
// see the rest from outside.
#include "verbena/settings/settings.hpp"

#include <gtest/gtest.h>

namespace verbena::settings {
namespace {

TEST(Settings, AllKeys) {
  const auto s = parse_toml(
      "fabric = '10.1.0.0/24'\n"
      "roce = ['10.1.0.7', 'fd00::1']\n"
      "devices = 'one'\n"
      "log_level = 'debug'\n"
      "explain = false\n",
      "x.toml");
  ASSERT_TRUE(s.ok()) << s.error().text;
  EXPECT_EQ(s->fabric->to_string(), "10.1.0.0/24");
  EXPECT_EQ(s->roce.size(), 2u);
  EXPECT_EQ(s->devices, std::vector<std::string>{"one"});
  EXPECT_EQ(s->log_level, "debug");
  EXPECT_EQ(s->explain, false);
  EXPECT_TRUE(parse_toml("", "x.toml").ok());
}

TEST(Settings, ErrorsNameFileLineAndKey) {
  const auto text = [](std::string_view toml) { return parse_toml(toml, "x.toml").error().text; };
  EXPECT_EQ(
      text("\ncolour = 1"),
      "x.toml:2: unknown key \"colour\"; known are fabric, roce, devices, log_level, explain");
  EXPECT_EQ(text("explain = 1"), "x.toml:1: \"explain\" must be true or false");
  EXPECT_EQ(text("devices = ['a', 3]"), "x.toml:1: \"devices\" must hold strings only");
  EXPECT_EQ(text("log_level = 'loud'"),
            "x.toml:1: log level \"loud\" is none of trace, debug, info, warn, error, off");
  EXPECT_EQ(text("x = [").substr(0, 9), "x.toml:1:");
}

// The parser calls itself for each part of a key, and 200,000 parts would use up the stack.
TEST(Settings, AKeyOfVeryManyPartsIsRefused) {
  const auto text = [](std::string_view toml) { return parse_toml(toml, "x.toml").error().text; };
  std::string more;
  for (int i = 0; i < 200'000; ++i) more += ".b";
  const std::string refused = ": a key of more than 256 parts";
  EXPECT_EQ(text("\na" + more + " = 1"), "x.toml:2" + refused);
  EXPECT_EQ(text("[a" + more + "]"), "x.toml:1" + refused);
  EXPECT_EQ(text("x = {y = 1, a" + more + " = 1}"), "x.toml:1" + refused);
  EXPECT_EQ(text("x = 'it\\' # '\na" + more + " = 1"), "x.toml:2" + refused);
  EXPECT_EQ(text("x = \"\\\"\"\na" + more + " = 1"), "x.toml:2" + refused);
  const std::string taken = text("# a" + more + "\nx = ['" + more + "', \"\\\"" + more + "\"]");
  EXPECT_TRUE(taken.starts_with("x.toml:2: unknown key")) << taken;
}

TEST(Settings, TheCommandLineGoesFirst) {
  Settings file;
  file.devices = {"a", "b"};
  file.log_level = "debug";
  Settings line;
  line.roce = {*IpAddress::parse("10.0.0.1")};
  file.override_with(line);
  EXPECT_TRUE(file.devices.empty()) << "devices are chosen by one of the two";
  EXPECT_EQ(file.log_level, "debug");
}

TEST(Settings, Fabrics) {
  EXPECT_FALSE(parse_fabric("10.1.0.0/24")->has_host_part());
  EXPECT_TRUE(parse_fabric("10.1.0.7/24")->has_host_part());
  EXPECT_EQ(parse_fabric("10.1.0.7/24")->subnet().base, *IpAddress::parse("10.1.0.0"));
  for (const char* wrong : {"", "10.1.0.0", "10.1.0.0/", "10.1.0.0/x", "10.1.0.0/8", "10.1.0.0/31",
                            "239.0.0.0/24", "10.1.0.0/24/", "fd00::/64", "/24"}) {
    EXPECT_FALSE(parse_fabric(wrong).ok()) << wrong;
  }
  const auto ipv6 = parse_fabric("fd00::/112");
  ASSERT_FALSE(ipv6.ok()) << "no LID would be routable";
  EXPECT_NE(ipv6.error().text.find("--roce"), std::string::npos) << ipv6.error().text;
}

TEST(Settings, DeviceNames) {
  for (const char* fine : {"verbena0", "mlx5_0", "a", "bnxt-re.1"}) {
    EXPECT_TRUE(parse_device_name(fine).ok()) << fine;
  }
  for (const char* wrong : {"", ".", "..", "a/b", "-a", "a b", "twenty-characters-xx"}) {
    EXPECT_FALSE(parse_device_name(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace verbena::settings
