// SPDX-License-Identifier: BSD-2-Clause
// Tests which function of librdmacm a command stands for.
#include "verbena/control/cm_functions.hpp"

#include <gtest/gtest.h>
#include <rdma/rdma_user_cm.h>

#include <cstring>
#include <vector>

namespace verbena::control {
namespace {

template <typename T>
std::string_view function_of(std::uint32_t number, const T& body) {
  std::vector<std::uint8_t> bytes(sizeof(rdma_ucm_cmd_hdr) + sizeof body);
  const rdma_ucm_cmd_hdr header{number, sizeof body, 0};
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, &body, sizeof body);
  const std::string_view function = function_of_cm_command(bytes);
  for (std::size_t n = 0; n < sizeof header; ++n) {
    EXPECT_EQ(function_of_cm_command(std::span(bytes).first(n)), "");
  }
  return function;
}

TEST(CmFunctionsTest, OfAProgram) {
  rdma_ucm_create_id create{};
  create.ps = RDMA_PS_TCP;
  EXPECT_EQ(function_of(RDMA_USER_CM_CMD_CREATE_ID, create), "rdma_create_id");
  rdma_ucm_bind bind{};
  bind.addr.ss_family = 2;
  EXPECT_EQ(function_of(RDMA_USER_CM_CMD_BIND, bind), "rdma_bind_addr");
  rdma_ucm_accept accept{};
  accept.conn_param.valid = 1;
  EXPECT_EQ(function_of(RDMA_USER_CM_CMD_ACCEPT, accept), "rdma_accept");
  EXPECT_EQ(function_of(RDMA_USER_CM_CMD_CONNECT, rdma_ucm_connect{}), "rdma_connect");
  EXPECT_EQ(function_of(RDMA_USER_CM_CMD_QUERY, rdma_ucm_query{}), "");
}

TEST(CmFunctionsTest, WhatLibrdmacmAsksForItselfIsNone) {
  rdma_ucm_create_id create{};
  create.ps = RDMA_PS_IB;
  EXPECT_EQ(function_of(RDMA_USER_CM_CMD_CREATE_ID, create), "");
  rdma_ucm_bind bind{};
  bind.addr.ss_family = 27;
  EXPECT_EQ(function_of(RDMA_USER_CM_CMD_BIND, bind), "");
  EXPECT_EQ(function_of(RDMA_USER_CM_CMD_ACCEPT, rdma_ucm_accept{}), "");
}

}  // namespace
}  // namespace verbena::control
