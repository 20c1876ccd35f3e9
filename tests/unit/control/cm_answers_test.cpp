// SPDX-License-Identifier: BSD-2-Clause
// Answers that come before the questions. They are found by what is asked, and lie within the bytes
// whatever these contain. Some commands make answers outdated.
#include "verbena/control/cm_answers.hpp"

#include <gtest/gtest.h>
#include <rdma/rdma_user_cm.h>

#include <cstring>

namespace verbena::control {
namespace {

template <typename T>
std::vector<std::uint8_t> command(std::uint32_t number, const T& body, std::uint16_t room = 0) {
  std::vector<std::uint8_t> bytes(sizeof(rdma_ucm_cmd_hdr) + sizeof body);
  const rdma_ucm_cmd_hdr header{number, sizeof body, room};
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, &body, sizeof body);
  return bytes;
}

TEST(CmAnswersTest, AreFoundByTheirQuestion) {
  std::vector<std::uint8_t> answers;
  append_answer(answers, {11, 2}, std::vector<std::uint8_t>{1, 2, 3});
  append_answer(answers, {19, 0}, {});
  append_answer(answers, {11, 3}, std::vector<std::uint8_t>{4});
  const auto found = find_answer(answers, {11, 2});
  ASSERT_TRUE(found);
  EXPECT_EQ(std::vector<std::uint8_t>(found->begin(), found->end()),
            (std::vector<std::uint8_t>{1, 2, 3}));
  EXPECT_EQ(find_answer(answers, {11, 3})->size(), 1u);
  EXPECT_TRUE(find_answer(answers, {19, 0})->empty());
  EXPECT_FALSE(find_answer(answers, {19, 1}));
  for (std::size_t n = 0; n < answers.size(); ++n) {
    EXPECT_FALSE(find_answer(std::span(answers).first(n), {11, 3})) << n;
  }
}

TEST(CmAnswersTest, QuestionsAreThoseInGoodOrder) {
  const rdma_ucm_query body{0x1234567890, 7, 2};
  for (const std::uint32_t number : {RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_CMD_INIT_QP_ATTR}) {
    const auto bytes = command(number, body, 280);
    const auto query = parse_cm_query(bytes);
    ASSERT_TRUE(query);
    EXPECT_EQ(query->question, (CmQuestion{number, 2}));
    EXPECT_EQ(query->id, 7u);
    EXPECT_EQ(query->response_address, 0x1234567890u);
    EXPECT_EQ(query->room, 280u);
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      EXPECT_FALSE(parse_cm_query(std::span(bytes).first(n))) << n;
    }
    auto lying = bytes;
    lying[4] = 255;
    EXPECT_FALSE(parse_cm_query(lying));
  }
  EXPECT_FALSE(parse_cm_query(command(RDMA_USER_CM_CMD_QUERY_ROUTE, body)));
}

TEST(CmAnswersTest, CommandsThatCanBePromisedAreThoseInGoodOrder) {
  rdma_ucm_connect connect{};
  connect.id = 7;
  connect.conn_param.private_data_len = 50;
  connect.conn_param.valid = 1;
  const auto bytes = command(RDMA_USER_CM_CMD_CONNECT, connect);
  const auto promised = parse_cm_promised(bytes);
  ASSERT_TRUE(promised);
  EXPECT_EQ(promised->question, (CmQuestion{RDMA_USER_CM_CMD_CONNECT, 1}));
  EXPECT_EQ(promised->id, 7u);
  EXPECT_EQ(promised->private_data_size, 50u);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(parse_cm_promised(std::span(bytes).first(n))) << n;
  }
  rdma_ucm_accept accept{};
  accept.uid = 9;
  accept.id = 8;
  const auto confirmed = parse_cm_promised(command(RDMA_USER_CM_CMD_ACCEPT, accept));
  ASSERT_TRUE(confirmed);
  EXPECT_EQ(confirmed->question, (CmQuestion{RDMA_USER_CM_CMD_ACCEPT, 0}));
  EXPECT_EQ(confirmed->id, 8u);
  EXPECT_EQ(confirmed->uid, 9u);
  EXPECT_FALSE(parse_cm_promised(command(RDMA_USER_CM_CMD_DISCONNECT, connect)));
  auto older = bytes;  // from a library without the last member
  older[4] = static_cast<std::uint8_t>(offsetof(rdma_ucm_connect, ece) & 0xff);
  older[5] = static_cast<std::uint8_t>(offsetof(rdma_ucm_connect, ece) >> 8);
  EXPECT_TRUE(parse_cm_promised(older));
  --older[4];
  EXPECT_FALSE(parse_cm_promised(older));
}

TEST(CmAnswersTest, CommandsTellWhichIdTheyChange) {
  rdma_ucm_connect connect{};
  connect.id = 1;
  rdma_ucm_accept accept{};
  accept.id = 2;
  rdma_ucm_set_option option{};
  option.id = 3;
  rdma_ucm_destroy_id destroy{};
  destroy.id = 4;
  rdma_ucm_migrate_id migrate{};
  migrate.id = 5;
  EXPECT_EQ(id_changed_by(command(RDMA_USER_CM_CMD_CONNECT, connect)), 1u);
  EXPECT_EQ(id_changed_by(command(RDMA_USER_CM_CMD_ACCEPT, accept)), 2u);
  EXPECT_EQ(id_changed_by(command(RDMA_USER_CM_CMD_SET_OPTION, option)), 3u);
  EXPECT_EQ(id_changed_by(command(RDMA_USER_CM_CMD_DESTROY_ID, destroy)), 4u);
  EXPECT_EQ(id_changed_by(command(RDMA_USER_CM_CMD_MIGRATE_ID, migrate)), 5u);
  EXPECT_FALSE(id_changed_by(command(RDMA_USER_CM_CMD_QUERY, rdma_ucm_query{})));
  EXPECT_FALSE(id_changed_by(command(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{})));
  const auto whole = command(RDMA_USER_CM_CMD_DESTROY_ID, destroy);
  EXPECT_FALSE(id_changed_by(std::span(whole).first(18)));

  EXPECT_EQ(id_withdrawn_by(command(RDMA_USER_CM_CMD_DESTROY_ID, destroy)), 4u);
  EXPECT_EQ(id_withdrawn_by(command(RDMA_USER_CM_CMD_LEAVE_MCAST, destroy)), 4u);
  EXPECT_EQ(id_withdrawn_by(command(RDMA_USER_CM_CMD_MIGRATE_ID, migrate)), 5u);
  EXPECT_FALSE(id_withdrawn_by(command(RDMA_USER_CM_CMD_ACCEPT, accept)));
}

}  // namespace
}  // namespace verbena::control
