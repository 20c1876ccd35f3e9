// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/capture/pcapng.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "capture_file.hpp"

namespace verbena::capture::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes some_blocks() {
  Bytes blocks;
  Pcapng file(blocks);
  file.begin_section("a test");
  file.add_interface("one[1]", "the first");
  file.add_interface("two[2]", "the second");
  const Bytes packet{0x45, 0, 0, 21, 0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 2, 9};
  file.add_packet({1, 5'000'000'007, packet, packet.size(), {}, "what it is"});
  file.add_packet({0, 6'000'000'008, packet, 100, {}, ""});
  file.add_statistics({1, 1, 2, 10, 3});
  return blocks;
}

TEST(Pcapng, IsReadByTshark) {
  const CaptureFile file(some_blocks());
  const auto rows =
      file.dissect("frame.time_epoch frame.interface_name frame.comment frame.len frame.cap_len");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0], (CaptureFile::Row{"5.000000007", "two[2]", "what it is", "21", "21"}));
  EXPECT_EQ(rows[1], (CaptureFile::Row{"6.000000008", "one[1]", "", "100", "21"}));
}

TEST(Pcapng, StatisticsAreAsLongAsIsSaid) {
  Bytes blocks;
  Pcapng(blocks).add_statistics({});
  EXPECT_EQ(blocks.size(), Pcapng::kStatisticsBytes);
}

TEST(Pcapng, FindsWholeBlocks) {
  const Bytes blocks = some_blocks();
  EXPECT_EQ(interfaces_of_packets(blocks), (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ(whole_blocks(blocks, blocks.size()), blocks.size());
  const std::size_t before_last = blocks.size() - Pcapng::kStatisticsBytes;
  for (std::size_t torn = 1; torn < Pcapng::kStatisticsBytes; ++torn) {
    EXPECT_EQ(whole_blocks(blocks, blocks.size() - torn), before_last);
  }
  EXPECT_EQ(whole_blocks(blocks, 5), 0u);
}

}  // namespace
}  // namespace verbena::capture::test
