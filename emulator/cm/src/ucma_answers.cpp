// SPDX-License-Identifier: BSD-2-Clause
// Asks beforehand, by the same commands, what librdmacm asks about an ID once it has an event.
#include <array>
#include <cstring>
#include <limits>

#include "ucma_layout.hpp"
#include "verbena/cm/ucma.hpp"

namespace verbena::cm {
namespace {

struct Question {
  std::uint32_t command;
  std::uint32_t argument;
};

constexpr Question kAddress{RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_QUERY_ADDR};
constexpr Question kPath{RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_QUERY_PATH};
constexpr Question kGid{RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_QUERY_GID};
constexpr Question kToInit{RDMA_USER_CM_CMD_INIT_QP_ATTR, kQpInit};
constexpr Question kToReceive{RDMA_USER_CM_CMD_INIT_QP_ATTR, kQpReadyToReceive};
constexpr Question kToSend{RDMA_USER_CM_CMD_INIT_QP_ATTR, kQpReadyToSend};

constexpr std::array kAfterAddress{kAddress, kGid};
constexpr std::array kAfterRoute{kPath, kToInit};
constexpr std::array kAfterRequest{kAddress, kPath, kGid, kToInit, kToReceive, kToSend};
constexpr std::array kAfterResponse{kToInit, kToReceive, kToSend};

std::span<const Question> questions_after(RdmaEventType type) {
  switch (type) {
    case RdmaEventType::kAddrResolved:
      return kAfterAddress;
    case RdmaEventType::kRouteResolved:
      return kAfterRoute;
    case RdmaEventType::kConnectRequest:
      return kAfterRequest;
    case RdmaEventType::kConnectResponse:
      return kAfterResponse;
    default:
      return {};
  }
}

struct Written {
  rdma_ucm_cmd_hdr header;
  rdma_ucm_query body;  // INIT_QP_ATTR has the same layout
};
static_assert(sizeof(rdma_ucm_query) == sizeof(rdma_ucm_init_qp_attr));
static_assert(offsetof(rdma_ucm_query, option) == offsetof(rdma_ucm_init_qp_attr, qp_state));

}  // namespace

std::array<std::uint8_t, Ucma::kEventSize> Ucma::event_bytes(const RdmaEvent& event) {
  const rdma_ucm_event_resp abi = ucma::to_abi(event);
  static_assert(sizeof abi == kEventSize);
  std::array<std::uint8_t, kEventSize> bytes;
  std::memcpy(bytes.data(), &abi, sizeof abi);
  return bytes;
}

void Ucma::answers_after(ChannelId channel, const RdmaEvent& event,
                         const std::function<void(const UcmaAnswer&)>& take) {
  for (const Question& question : questions_after(event.type)) {
    Written written{};
    written.header = {question.command, sizeof written.body,
                      std::numeric_limits<std::uint16_t>::max()};
    written.body.id = event.request != 0 ? event.request : event.owner;
    written.body.option = question.argument;
    std::array<std::uint8_t, sizeof written> bytes;
    std::memcpy(bytes.data(), &written, sizeof written);
    // Questions change nothing, so any time will do.
    UcmaReply reply = execute_in(std::move(spare_), 0, channel, bytes, {}, 0);
    if (reply.error == 0) take({question.command, question.argument, reply.response});
    spare_ = std::move(reply.response);
  }
  if (!is_promising_) return;
  if (const auto promise = cm_.promise_after(event)) {
    const bool connects = promise->call == Promise::Call::kConnect;
    take({connects ? RDMA_USER_CM_CMD_CONNECT : RDMA_USER_CM_CMD_ACCEPT,
          promise->call == Promise::Call::kConfirm ? 0u : 1u,
          std::span(&promise->private_data_max, 1)});
  }
}

}  // namespace verbena::cm
