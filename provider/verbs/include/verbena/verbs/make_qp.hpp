// SPDX-License-Identifier: BSD-2-Clause
// Makes a queue pair for both verbs that create one.
#pragma once

#include <infiniband/verbs.h>

#include "verbena/context/context.hpp"

namespace verbena::provider {

struct QpRequest {
  const char* verb = "";
  ibv_qp_type type = IBV_QPT_RC;
  Pd* domain = nullptr;
  Cq* send_cq = nullptr;
  Cq* receive_cq = nullptr;
  Srq* srq = nullptr;
  Xrcd* xrcd = nullptr;
  ibv_qp_cap cap{};
  bool signal_all = false;
  bool blocks_own_multicast = false;
  bool builder = false;  // for ibv_wr_*
  void* user = nullptr;
};

// Throws VerbRefused.
Qp* make_qp(Context& context, const QpRequest& request);

}  // namespace verbena::provider
