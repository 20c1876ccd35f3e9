// SPDX-License-Identifier: BSD-2-Clause
#include "names.hpp"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace verbena::daemon {

std::string hex(std::uint64_t value, int digits) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%0*llx", digits, static_cast<unsigned long long>(value));
  return text;
}

std::string qp_type_name(std::uint8_t type) {
  switch (type) {
    case 2:
      return "RC";
    case 3:
      return "UC";
    case 4:
      return "UD";
    case 8:
      return "RAW_PACKET";
    case 9:
      return "XRC_SEND";
    case 10:
      return "XRC_RECV";
    default:
      return "type " + std::to_string(type);
  }
}

std::string qp_state_name(std::uint8_t state) {
  constexpr std::array names{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return state < names.size() ? names[state] : "state " + std::to_string(state);
}

std::string completion_status_name(std::uint8_t status) {
  constexpr std::array names{"SUCCESS",
                             "LOC_LEN_ERR",
                             "LOC_QP_OP_ERR",
                             "LOC_EEC_OP_ERR",
                             "LOC_PROT_ERR",
                             "WR_FLUSH_ERR",
                             "MW_BIND_ERR",
                             "BAD_RESP_ERR",
                             "LOC_ACCESS_ERR",
                             "REM_INV_REQ_ERR",
                             "REM_ACCESS_ERR",
                             "REM_OP_ERR",
                             "RETRY_EXC_ERR",
                             "RNR_RETRY_EXC_ERR",
                             "LOC_RDD_VIOL_ERR",
                             "REM_INV_RD_REQ_ERR",
                             "REM_ABORT_ERR",
                             "INV_EECN_ERR",
                             "INV_EEC_STATE_ERR",
                             "FATAL_ERR",
                             "RESP_TIMEOUT_ERR",
                             "GENERAL_ERR",
                             "TM_ERR",
                             "TM_RNDV_INCOMPLETE"};
  return status < names.size() ? std::string("IBV_WC_") + names[status]
                               : "status " + std::to_string(status);
}

std::string text_of(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace verbena::daemon
