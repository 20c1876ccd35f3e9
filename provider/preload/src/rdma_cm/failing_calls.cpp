// SPDX-License-Identifier: BSD-2-Clause
#include "rdma_cm/failing_calls.hpp"

#include <rdma/rdma_user_cm.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <new>
#include <string_view>

#include "verbena/control/planned_failures.hpp"

namespace verbena::preload::failing_calls {
namespace {

constexpr std::string_view kOpening = "rdma_create_event_channel";

// The function of librdmacm that writes such a command; empty: none that can be named.
std::string_view function_of(std::uint32_t command) {
  switch (command) {
    case RDMA_USER_CM_CMD_CREATE_ID:
      return "rdma_create_id";
    case RDMA_USER_CM_CMD_DESTROY_ID:
      return "rdma_destroy_id";
    case RDMA_USER_CM_CMD_BIND_IP:
    case RDMA_USER_CM_CMD_BIND:
      return "rdma_bind_addr";
    case RDMA_USER_CM_CMD_RESOLVE_IP:
    case RDMA_USER_CM_CMD_RESOLVE_ADDR:
      return "rdma_resolve_addr";
    case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
      return "rdma_resolve_route";
    case RDMA_USER_CM_CMD_CONNECT:
      return "rdma_connect";
    case RDMA_USER_CM_CMD_LISTEN:
      return "rdma_listen";
    case RDMA_USER_CM_CMD_ACCEPT:
      return "rdma_accept";
    case RDMA_USER_CM_CMD_REJECT:
      return "rdma_reject";
    case RDMA_USER_CM_CMD_DISCONNECT:
      return "rdma_disconnect";
    case RDMA_USER_CM_CMD_GET_EVENT:
      return "rdma_get_cm_event";
    case RDMA_USER_CM_CMD_SET_OPTION:
      return "rdma_set_option";
    case RDMA_USER_CM_CMD_NOTIFY:
      return "rdma_notify";
    case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
    case RDMA_USER_CM_CMD_JOIN_MCAST:
      return "rdma_join_multicast";
    case RDMA_USER_CM_CMD_LEAVE_MCAST:
      return "rdma_leave_multicast";
    case RDMA_USER_CM_CMD_MIGRATE_ID:
      return "rdma_migrate_id";
    default:
      return {};
  }
}

struct Plan {
  control::PlannedFailure asked;
  control::PlannedCalls calls;
};

// What is wrong in the list, the driver says. Never freed: the program's threads may still call.
std::deque<Plan>* read_plans() noexcept try {
  const char* const list = ::secure_getenv("VERBENA_FAIL");
  if (list == nullptr) return nullptr;
  const auto all = control::parse_planned_failures(list);
  if (!all) return nullptr;
  auto* const plans = new std::deque<Plan>;
  for (const control::PlannedFailure& asked : *all) {
    if (asked.is_of_librdmacm()) plans->emplace_back().asked = asked;
  }
  return plans;
} catch (const std::bad_alloc&) {
  return nullptr;
}

bool explains() {
  const char* const log = ::secure_getenv("VERBENA_LOG");
  return log != nullptr && std::strcmp(log, "explain") == 0;
}

int error_of(std::string_view function) noexcept {
  static std::deque<Plan>* const plans = read_plans();
  if (plans == nullptr || function.empty()) return 0;
  for (Plan& plan : *plans) {
    if (plan.asked.function != function) continue;
    const auto call = plan.calls.next(plan.asked);
    if (!call) continue;
    if (explains()) {
      std::fprintf(stderr,
                   "verbena: %s: call %llu of this process fails with %s, as VERBENA_FAIL asks\n",
                   plan.asked.function.data(), static_cast<unsigned long long>(*call),
                   plan.asked.error_name.data());
    }
    return plan.asked.error;
  }
  return 0;
}

}  // namespace

int error_of_command(std::span<const std::uint8_t> command) noexcept {
  rdma_ucm_cmd_hdr header;
  if (command.size() < sizeof header) return 0;
  std::memcpy(&header, command.data(), sizeof header);
  return error_of(function_of(header.cmd));
}

int error_of_opening() noexcept { return error_of(kOpening); }

}  // namespace verbena::preload::failing_calls
