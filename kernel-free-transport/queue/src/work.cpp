// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/queue/work.hpp"

namespace verbena::queue {

std::string_view to_string(WorkOpcode opcode) {
  switch (opcode) {
    case WorkOpcode::kSend:
      return "SEND";
    case WorkOpcode::kSendImmediate:
      return "SEND_WITH_IMM";
    case WorkOpcode::kSendInvalidate:
      return "SEND_WITH_INV";
    case WorkOpcode::kWrite:
      return "RDMA_WRITE";
    case WorkOpcode::kWriteImmediate:
      return "RDMA_WRITE_WITH_IMM";
    case WorkOpcode::kRead:
      return "RDMA_READ";
    case WorkOpcode::kCompareSwap:
      return "ATOMIC_CMP_AND_SWP";
    case WorkOpcode::kFetchAdd:
      return "ATOMIC_FETCH_AND_ADD";
    case WorkOpcode::kAtomicWrite:
      return "ATOMIC_WRITE";
    case WorkOpcode::kFlush:
      return "FLUSH";
    case WorkOpcode::kLocalInvalidate:
      return "LOCAL_INV";
    case WorkOpcode::kBindWindow:
      return "BIND_MW";
  }
  return "?";
}

std::string_view to_string(Status status) {
  switch (status) {
    case Status::kSuccess:
      return "success";
    case Status::kLocalLength:
      return "local length error";
    case Status::kLocalQpOperation:
      return "local QP operation error";
    case Status::kLocalEec:
      return "local EE context error";
    case Status::kLocalProtection:
      return "local protection error";
    case Status::kFlushed:
      return "flushed";
    case Status::kWindowBind:
      return "memory window bind error";
    case Status::kBadResponse:
      return "bad response";
    case Status::kLocalAccess:
      return "local access error";
    case Status::kRemoteInvalidRequest:
      return "remote invalid request";
    case Status::kRemoteAccess:
      return "remote access error";
    case Status::kRemoteOperation:
      return "remote operation error";
    case Status::kRetryExceeded:
      return "transport retry counter exceeded";
    case Status::kRnrRetryExceeded:
      return "RNR retry counter exceeded";
    case Status::kLocalRdd:
      return "local RDD violation";
    case Status::kRemoteInvalidRd:
      return "remote invalid RD request";
    case Status::kRemoteAborted:
      return "remote abort";
    case Status::kInvalidEecn:
      return "invalid EE context number";
    case Status::kInvalidEecState:
      return "invalid EE context state";
    case Status::kFatal:
      return "fatal error";
    case Status::kResponseTimeout:
      return "response timeout";
    case Status::kGeneral:
      return "general error";
    case Status::kTagMatching:
      return "tag matching error";
    case Status::kTagRendezvousIncomplete:
      return "rendezvous incomplete";
  }
  return "?";
}

}  // namespace verbena::queue
