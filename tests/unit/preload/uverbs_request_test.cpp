// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/preload/uverbs_request.hpp"

#include <gtest/gtest.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace verbena::preload {
namespace {

using Bytes = std::vector<std::uint8_t>;

template <typename T>
void append(Bytes& bytes, const T& value) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof value);
}

Bytes write_request(std::uint32_t command, std::uint16_t in_words, std::uint16_t out_words,
                    std::uint64_t response) {
  Bytes bytes;
  append(bytes, ib_uverbs_cmd_hdr{command, in_words, out_words});
  append(bytes, response);
  return bytes;
}

struct AttributeSpec {
  std::uint16_t id;
  std::uint16_t length;
  std::uint64_t data;
};

Bytes ioctl_request(std::uint16_t object, std::uint16_t method,
                    const std::vector<AttributeSpec>& attributes) {
  Bytes bytes;
  ib_uverbs_ioctl_hdr header{};
  header.length = static_cast<std::uint16_t>(sizeof header + attributes.size() * 16);
  header.object_id = object;
  header.method_id = method;
  header.num_attrs = static_cast<std::uint16_t>(attributes.size());
  append(bytes, header);
  for (const AttributeSpec& spec : attributes) {
    ib_uverbs_attr attribute{};
    attribute.attr_id = spec.id;
    attribute.len = spec.length;
    attribute.data = spec.data;
    append(bytes, attribute);
  }
  return bytes;
}

int refusal(const UverbsRequest& request) {
  const auto* refused = std::get_if<RefusedRequest>(&request);
  return refused == nullptr ? 0 : refused->code;
}

TEST(UverbsRequest, LayoutsAreTheKernels) {
  EXPECT_EQ(kIoctlHeaderSize, sizeof(ib_uverbs_ioctl_hdr));
  EXPECT_EQ(kIoctlAttributeSize, sizeof(ib_uverbs_attr));
  EXPECT_EQ(kGidEntrySize, 32u);
  EXPECT_EQ(kCommandCreateCompChannel, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL);
  EXPECT_EQ(RDMA_VERBS_IOCTL, 0xc0181b01u);
}

TEST(UverbsRequest, CompletionChannelByWrite) {
  const auto request = parse_uverbs_write(write_request(17, 4, 1, 0x1234));
  ASSERT_TRUE(std::holds_alternative<CreateCompChannel>(request));
  EXPECT_EQ(std::get<CreateCompChannel>(request).response, 0x1234u);
}

TEST(UverbsRequest, WritesThatAreRefused) {
  EXPECT_EQ(refusal(parse_uverbs_write({})), EINVAL);
  EXPECT_EQ(refusal(parse_uverbs_write(write_request(0, 4, 1, 1))), EOPNOTSUPP);
  EXPECT_EQ(refusal(parse_uverbs_write(write_request(17, 5, 1, 1))), EINVAL);
  EXPECT_EQ(refusal(parse_uverbs_write(write_request(17, 4, 0, 1))), ENOSPC);
  Bytes headless = write_request(17, 2, 1, 1);
  headless.resize(8);
  EXPECT_EQ(refusal(parse_uverbs_write(headless)), EINVAL);
}

TEST(UverbsRequest, SelfTestOfThePlugin) {
  EXPECT_TRUE(std::holds_alternative<AreYouThere>(
      parse_uverbs_write(write_request(kCommandAreYouThere, 2, 0, 0))));
}

TEST(UverbsRequest, CompletionChannelByIoctl) {
  const auto request = parse_uverbs_ioctl(
      ioctl_request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE,
                    {{UVERBS_ATTR_CORE_IN, 8, 0},
                     {UVERBS_ATTR_CORE_OUT, 4, 0x5678},
                     {UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL}}));
  ASSERT_TRUE(std::holds_alternative<CreateCompChannel>(request));
  EXPECT_EQ(std::get<CreateCompChannel>(request).response, 0x5678u);
}

TEST(UverbsRequest, TheProbeIsToldToUseWrite) {
  EXPECT_EQ(refusal(parse_uverbs_ioctl(
                ioctl_request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE,
                              {{UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_QUERY_DEVICE}}))),
            EPROTONOSUPPORT);
}

TEST(UverbsRequest, AsyncEventChannel) {
  const auto request = parse_uverbs_ioctl(
      ioctl_request(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC,
                    {{7, 0, 0}, {UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, 0, 0}}));
  ASSERT_TRUE(std::holds_alternative<AllocateAsyncEvents>(request));
  EXPECT_EQ(std::get<AllocateAsyncEvents>(request).attribute, 1u);
}

TEST(UverbsRequest, GidEntry) {
  for (const std::uint16_t index_length : {std::uint16_t{4}, std::uint16_t{8}}) {
    const auto request =
        parse_uverbs_ioctl(ioctl_request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY,
                                         {{UVERBS_ATTR_QUERY_GID_ENTRY_PORT, 4, 1},
                                          {UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, index_length, 3},
                                          {UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, 4, 0},
                                          {UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, 32, 0x9000}}));
    ASSERT_TRUE(std::holds_alternative<QueryGidEntry>(request));
    const auto& query = std::get<QueryGidEntry>(request);
    EXPECT_EQ(query.port, 1u);
    EXPECT_EQ(query.index, 3u);
    EXPECT_EQ(query.response, 0x9000u);
    EXPECT_EQ(query.response_attribute, 3u);
  }
}

TEST(UverbsRequest, GidEntryWithoutRoomOrPort) {
  EXPECT_EQ(refusal(parse_uverbs_ioctl(
                ioctl_request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY,
                              {{UVERBS_ATTR_QUERY_GID_ENTRY_PORT, 4, 1},
                               {UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, 8, 3},
                               {UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, 31, 0x9000}}))),
            ENOSPC);
  EXPECT_EQ(refusal(parse_uverbs_ioctl(
                ioctl_request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY,
                              {{UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, 32, 0x9000}}))),
            EINVAL);
}

TEST(UverbsRequest, GidTable) {
  const auto request = parse_uverbs_ioctl(
      ioctl_request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE,
                    {{UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, 8, 32},
                     {UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 4, 0},
                     {UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, 96, 0x9000},
                     {UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, 8, 0xa000}}));
  ASSERT_TRUE(std::holds_alternative<QueryGidTable>(request));
  EXPECT_EQ(std::get<QueryGidTable>(request).max_entries, 3u);
}

TEST(UverbsRequest, GidTableOfEntriesWithoutSize) {
  EXPECT_EQ(refusal(parse_uverbs_ioctl(
                ioctl_request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE,
                              {{UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, 8, 0},
                               {UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, 96, 0x9000},
                               {UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, 8, 0xa000}}))),
            EINVAL);
}

TEST(UverbsRequest, OtherObjectsAndMethods) {
  EXPECT_EQ(refusal(parse_uverbs_ioctl(ioctl_request(UVERBS_OBJECT_MR, 0, {}))), EPROTONOSUPPORT);
  EXPECT_EQ(refusal(parse_uverbs_ioctl(
                ioctl_request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, {}))),
            EPROTONOSUPPORT);
}

TEST(UverbsRequest, HeadersThatLie) {
  Bytes bytes = ioctl_request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, {{0, 4, 1}});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(refusal(parse_uverbs_ioctl({bytes.data(), size})), EINVAL) << size;
  }
  bytes[0] = 0xff;
  EXPECT_EQ(refusal(parse_uverbs_ioctl(bytes)), EINVAL);
}

}  // namespace
}  // namespace verbena::preload
