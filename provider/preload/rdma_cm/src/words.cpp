// SPDX-License-Identifier: BSD-2-Clause
#include "rdma_cm/words.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "paths/discovery.hpp"
#include "rdma_cm/cm_connection.hpp"

namespace verbena::preload {
namespace {

using Bytes = std::span<const std::uint8_t>;

// Values of enum rdma_cm_event_type. rdma_cma.h and rdma_user_cm.h cannot both be included.
constexpr std::uint32_t kAddressError = 1;
constexpr std::uint32_t kUnreachable = 7;
constexpr std::uint32_t kRejected = 8;

// Returns a T from the first bytes. Bytes that are missing at the end are zero.
template <typename T>
T start_of(Bytes bytes) {
  T value{};
  if (!bytes.empty()) std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

std::string name_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &address, sizeof in);
    ::inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
    return std::string(text) + ":" + std::to_string(ntohs(in.sin_port));
  }
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, &address, sizeof in);
    ::inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof text);
    return "[" + std::string(text) + "]:" + std::to_string(ntohs(in.sin6_port));
  }
  return "its destination";
}

// Asks the emulator for the destination of the ID.
std::string destination_of(std::uint64_t channel, std::uint32_t id) {
  struct {
    rdma_ucm_cmd_hdr header;
    rdma_ucm_query query;
  } question{};
  question.header = {RDMA_USER_CM_CMD_QUERY, sizeof question.query,
                     sizeof(rdma_ucm_query_addr_resp)};
  question.query.id = id;
  question.query.option = RDMA_USER_CM_QUERY_ADDR;
  control::CmCommand command;
  command.channel = channel;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&question);
  command.command.assign(bytes, bytes + sizeof question);
  const auto reply = send_cm_command(command);
  sockaddr_storage to{};
  if (reply && reply->code == 0) {
    const auto answer = start_of<rdma_ucm_query_addr_resp>(reply->response);
    std::memcpy(&to, &answer.dst_addr, sizeof to);
  }
  return name_of(to);
}

const char* why_rejected(std::uint32_t reason) {
  constexpr std::uint32_t kInvalidServiceId = 8;
  constexpr std::uint32_t kConsumerDefined = 28;
  if (reason == kInvalidServiceId) {
    return "nobody listens (rdma_listen) there on this port in this port space";
  }
  if (reason == kConsumerDefined) {
    return "the listener has called rdma_reject, could not accept, or has as many waiting as its "
           "backlog allows";
  }
  return "a reason of the connection manager (enum ib_cm_rej_reason)";
}

// Returns the condition that a command has violated if it fails with EINVAL, except for those about
// private data.
const char* condition_of(std::uint32_t command) {
  switch (command) {
    case RDMA_USER_CM_CMD_RESOLVE_IP:
    case RDMA_USER_CM_CMD_RESOLVE_ADDR:
      return "rdma_resolve_addr: the ID must not be resolved, connected or listening, and its "
             "source and destination must be of one address family";
    case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
      return "rdma_resolve_route: the address must be resolved before "
             "(RDMA_CM_EVENT_ADDR_RESOLVED), and the route must not be resolved yet";
    case RDMA_USER_CM_CMD_CONNECT:
      return "rdma_connect: the route must be resolved before (RDMA_CM_EVENT_ROUTE_RESOLVED)";
    case RDMA_USER_CM_CMD_ACCEPT:
      return "rdma_accept: the ID must be of an RDMA_CM_EVENT_CONNECT_REQUEST that was not "
             "answered";
    case RDMA_USER_CM_CMD_REJECT:
      return "rdma_reject: the ID must be of an RDMA_CM_EVENT_CONNECT_REQUEST that was not "
             "answered";
    case RDMA_USER_CM_CMD_LISTEN:
      return "rdma_listen: the ID must not be resolved, connected or listening";
    case RDMA_USER_CM_CMD_DISCONNECT:
      return "rdma_disconnect: the ID must have been connected before "
             "(RDMA_CM_EVENT_ESTABLISHED)";
    default:
      return nullptr;
  }
}

// The most private data that an ID of any port space and address family may give.
struct DataLimit {
  std::uint32_t least;
  const char* of_others;
};
constexpr DataLimit kConnectLimit{56, "180 with RDMA_PS_UDP, 36 more with AF_IB"};
constexpr DataLimit kAcceptLimit{136, "196 but with RDMA_PS_UDP"};
constexpr DataLimit kRejectLimit{136, "148 but with RDMA_PS_UDP"};

// Returns nothing if any ID may give so much data.
std::string condition_of_data(std::uint32_t length, const DataLimit& limit) {
  if (length <= limit.least) return {};
  return ", and private_data_len be " + std::to_string(limit.least) + " at most (" +
         limit.of_others + "); it is " + std::to_string(length);
}

}  // namespace

void explain_cm_event(std::uint64_t channel, Bytes bytes) {
  const auto event = start_of<rdma_ucm_event_resp>(bytes);
  if (event.event != kRejected && event.event != kUnreachable && event.event != kAddressError) {
    return;
  }
  if (!explains_refused_commands()) return;
  const std::string to = destination_of(channel, event.id);
  const std::string status = " (status " + std::to_string(static_cast<int>(event.status)) + "): ";
  if (event.event == kRejected) {
    explain_refused_command(
        {0, "the connection to " + to + " is rejected" + status + why_rejected(event.status)});
  } else if (event.event == kUnreachable) {
    explain_refused_command({0, "no connection to " + to + status +
                                    "nobody answered, or an RDMA_PS_UDP listener refused"});
  } else {
    explain_refused_command({0, "the address " + to + " cannot be resolved" + status +
                                    "no device leads there, or that host did not answer"});
  }
}

void explain_cm_refusal(Bytes command, int code) {
  const auto header = start_of<rdma_ucm_cmd_hdr>(command);
  const char* const condition = code == EINVAL ? condition_of(header.cmd) : nullptr;
  if (condition == nullptr || !explains_refused_commands()) return;
  std::string text = condition;
  const Bytes body = command.subspan(std::min(sizeof header, command.size()));
  if (header.cmd == RDMA_USER_CM_CMD_CONNECT) {
    const auto connect = start_of<rdma_ucm_connect>(body);
    text += condition_of_data(connect.conn_param.private_data_len, kConnectLimit);
  } else if (header.cmd == RDMA_USER_CM_CMD_ACCEPT) {
    const auto accept = start_of<rdma_ucm_accept>(body);
    text += condition_of_data(accept.conn_param.private_data_len, kAcceptLimit);
  } else if (header.cmd == RDMA_USER_CM_CMD_REJECT) {
    const auto reject = start_of<rdma_ucm_reject>(body);
    text += condition_of_data(reject.private_data_len, kRejectLimit);
  }
  explain_refused_command({code, text});
}

}  // namespace verbena::preload
