// SPDX-License-Identifier: BSD-2-Clause
// What the preload library must add to a command: the value of an option, or the channel behind a
// descriptor. It adds nothing to a command that is too short.
#include "verbena/preload/rdma_cm_request.hpp"

#include <gtest/gtest.h>
#include <rdma/rdma_user_cm.h>

#include <cstring>
#include <vector>

namespace verbena::preload {
namespace {

template <typename T>
std::vector<std::uint8_t> command(std::uint32_t number, const T& body) {
  std::vector<std::uint8_t> bytes(8 + sizeof body);
  const rdma_ucm_cmd_hdr header{number, sizeof body, 0};
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + 8, &body, sizeof body);
  return bytes;
}

TEST(RdmaCmRequestTest, FindsWhatACommandPointsTo) {
  rdma_ucm_set_option option{};
  option.optval = 0x1234567890;
  option.optlen = 4;
  const auto set = command(RDMA_USER_CM_CMD_SET_OPTION, option);
  EXPECT_EQ(parse_rdma_cm_write(set).value_address, 0x1234567890u);
  EXPECT_EQ(parse_rdma_cm_write(set).value_length, 4u);
  rdma_ucm_migrate_id migration{};
  migration.fd = 9;
  const auto migrate = command(RDMA_USER_CM_CMD_MIGRATE_ID, migration);
  EXPECT_TRUE(parse_rdma_cm_write(migrate).names_channel);
  EXPECT_EQ(parse_rdma_cm_write(migrate).channel_fd, 9u);
  const auto get = command(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{1});
  EXPECT_TRUE(parse_rdma_cm_write(get).is_get_event);
  for (const auto& bytes : {set, migrate}) {
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      const RdmaCmRequest cut = parse_rdma_cm_write(std::span(bytes).first(n));
      EXPECT_FALSE(cut.names_channel) << n;
      EXPECT_EQ(cut.value_length, 0u) << n;
    }
  }
}

}  // namespace
}  // namespace verbena::preload
