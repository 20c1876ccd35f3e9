// SPDX-License-Identifier: BSD-2-Clause
// A process that has imported a device gets the asynchronous events of objects of its own.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "client.hpp"

namespace client {

void give_a_device() {
  ibv_context* const context = open_first();
  const int given = ::dup(context->cmd_fd);
  char number[16];
  std::snprintf(number, sizeof number, "%d", given);
  ibv_pd* const pd = ibv_alloc_pd(context);
  EXPECT(given >= 0 && pd != nullptr && ::setenv("GIVEN", number, 1) == 0);
  std::snprintf(number, sizeof number, "%u", pd->handle);
  EXPECT(::setenv("GIVEN_PD", number, 1) == 0);
  const pid_t child = ::fork();
  EXPECT(child >= 0);
  if (child == 0) {
    ::execl("/proc/self/exe", "client", "import_and_await_events", nullptr);
    std::_Exit(2);
  }
  int status = 0;
  EXPECT(::waitpid(child, &status, 0) == child && status == 0);
  EXPECT(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
}

// One event comes before an object of the owner was imported, and one afterwards.
void import_and_await_events() {
  ::alarm(20);
  ibv_context* const context = ibv_import_device(std::atoi(std::getenv("GIVEN")));
  EXPECT(context != nullptr);
  ibv_pd* const pd = ibv_alloc_pd(context);
  ibv_cq* const cq = ibv_create_cq(context, 10, nullptr, nullptr, 0);
  ibv_srq_init_attr shared{};
  shared.attr = {10, 1, 0};
  EXPECT(pd != nullptr && cq != nullptr);
  ibv_srq* const srq = ibv_create_srq(pd, &shared);
  EXPECT(srq != nullptr);
  ibv_pd* imported = nullptr;
  for (int round = 0; round < 2; ++round) {
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_RC;
    init.send_cq = init.recv_cq = cq;
    init.srq = srq;
    init.cap = {1, 0, 1, 0, 0};
    ibv_qp* const qp = ibv_create_qp(pd, &init);
    EXPECT(qp != nullptr);
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    EXPECT(ibv_modify_qp(qp, &a, kToInit) == 0);
    a.qp_state = IBV_QPS_ERR;
    EXPECT(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0);
    pollfd readable{context->async_fd, POLLIN, 0};
    EXPECT(::poll(&readable, 1, 10'000) == 1);
    ibv_async_event event{};
    EXPECT(ibv_get_async_event(context, &event) == 0);
    EXPECT(event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == qp);
    ibv_ack_async_event(&event);
    EXPECT(ibv_destroy_qp(qp) == 0);
    if (round > 0) continue;
    imported =
        ibv_import_pd(context, static_cast<std::uint32_t>(std::atoi(std::getenv("GIVEN_PD"))));
    EXPECT(imported != nullptr);
  }
  ibv_unimport_pd(imported);
  EXPECT(ibv_destroy_srq(srq) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
  EXPECT(ibv_close_device(context) == 0);
}

}  // namespace client
