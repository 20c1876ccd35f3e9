// SPDX-License-Identifier: BSD-2-Clause
// Has objects of known kinds and numbers, prints "ready" and ends when its standard input has a
// line.
//
//   resources_program ADDRESS [CQS [IDS]]
//
// On the device of the address it has:
// - 2 protection domains beside that of librdmacm, and 1 region;
// - 2 connected queue pairs with an ID each, 1 unused UC queue pair, and 4 UD queue pairs of one
//   SRQ. All complete to two queues;
// - an XRC SRQ with a completion queue of its own;
// - 2 IDs that listen, one at the address and one at any, and 1 ID that knows its route;
// - CQS more completion queues, and IDS more IDs at the address.
// Two more IDs have no device; one of them is bound to any address.
#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr std::uint16_t kPort = 7475;
constexpr int kTimeoutMs = 2000;

void check(bool good, const char* what) {
  if (good) return;
  std::printf("failed: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

sockaddr_in at(const char* address, std::uint16_t port) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_port = htons(port);
  check(::inet_pton(AF_INET, address, &made.sin_addr) == 1, "ADDRESS");
  return made;
}

class Ids {
 public:
  explicit Ids(const char* address) : address_(address) {
    channel_ = rdma_create_event_channel();
    check(channel_ != nullptr, "rdma_create_event_channel");
  }

  rdma_cm_id* make() {
    rdma_cm_id* id = nullptr;
    check(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
    return id;
  }
  rdma_cm_id* bind(const char* address, std::uint16_t port) {
    rdma_cm_id* const id = make();
    sockaddr_in to = at(address, port);
    check(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&to)) == 0, "rdma_bind_addr");
    return id;
  }
  void listen(const char* address, std::uint16_t port) {
    check(rdma_listen(bind(address, port), 3) == 0, "rdma_listen");
  }
  // Returns an ID that has resolved the address and the route to a listener.
  rdma_cm_id* resolve(std::uint16_t port) {
    rdma_cm_id* const id = make();
    sockaddr_in to = at(address_, port);
    check(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), kTimeoutMs) == 0,
          "rdma_resolve_addr");
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    check(rdma_resolve_route(id, kTimeoutMs) == 0, "rdma_resolve_route");
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    return id;
  }
  void connect(rdma_cm_id* active, ibv_pd* pd, ibv_qp_init_attr init) {
    ibv_qp_init_attr again = init;
    check(rdma_create_qp(active, pd, &init) == 0, "rdma_create_qp");
    rdma_conn_param param{};
    check(rdma_connect(active, &param) == 0, "rdma_connect");
    rdma_cm_id* const passive = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    check(rdma_create_qp(passive, pd, &again) == 0, "rdma_create_qp");
    check(rdma_accept(passive, &param) == 0, "rdma_accept");
    expect(RDMA_CM_EVENT_ESTABLISHED);
    expect(RDMA_CM_EVENT_ESTABLISHED);
  }

 private:
  rdma_cm_id* expect(rdma_cm_event_type type) {
    rdma_cm_event* event = nullptr;
    check(rdma_get_cm_event(channel_, &event) == 0, "rdma_get_cm_event");
    check(event->event == type, rdma_event_str(event->event));
    rdma_cm_id* const id = event->id;
    rdma_ack_cm_event(event);
    return id;
  }

  const char* address_;
  rdma_event_channel* channel_ = nullptr;
};

ibv_cq* make_cq(ibv_context* context, int size) {
  ibv_cq* const cq = ibv_create_cq(context, size, nullptr, nullptr, 0);
  check(cq != nullptr, "ibv_create_cq");
  return cq;
}

ibv_qp_init_attr attributes(ibv_qp_type type, ibv_cq* send, ibv_cq* receive, ibv_srq* srq) {
  ibv_qp_init_attr init{};
  init.qp_type = type;
  init.send_cq = send;
  init.recv_cq = receive;
  init.srq = srq;
  init.cap = {4, srq == nullptr ? 4u : 0u, 1, 1, 0};
  return init;
}

void make_xrc_srq(ibv_context* context, ibv_pd* pd) {
  ibv_xrcd_init_attr of_domain{};
  of_domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  of_domain.fd = -1;
  of_domain.oflags = O_CREAT;
  ibv_srq_init_attr_ex init{};
  init.attr.max_wr = 8;
  init.attr.max_sge = 1;
  init.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD;
  init.srq_type = IBV_SRQT_XRC;
  init.xrcd = ibv_open_xrcd(context, &of_domain);
  init.cq = make_cq(context, 70);
  init.pd = pd;
  check(ibv_create_srq_ex(context, &init) != nullptr, "ibv_create_srq_ex");
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc < 2) return 2;
  Ids ids(argv[1]);
  ids.listen(argv[1], kPort);
  ids.listen("0.0.0.0", kPort + 1);
  ids.make();
  ids.bind("0.0.0.0", kPort + 2);
  ids.resolve(kPort);
  rdma_cm_id* const active = ids.resolve(kPort);
  ibv_context* const context = active->verbs;

  ibv_pd* const pd = ibv_alloc_pd(context);
  ibv_pd* const other = ibv_alloc_pd(context);
  static char memory[64];
  check(pd != nullptr && other != nullptr && ibv_reg_mr(pd, memory, sizeof memory, 0) != nullptr,
        "ibv_reg_mr");
  ibv_cq* const send = make_cq(context, 100);
  ibv_cq* const receive = make_cq(context, 80);
  ids.connect(active, pd, attributes(IBV_QPT_RC, send, receive, nullptr));
  ibv_qp_init_attr plain = attributes(IBV_QPT_UC, send, send, nullptr);
  check(ibv_create_qp(other, &plain) != nullptr, "ibv_create_qp");
  ibv_srq_init_attr of_srq{};
  of_srq.attr.max_wr = 8;
  of_srq.attr.max_sge = 1;
  ibv_srq* const srq = ibv_create_srq(other, &of_srq);
  check(srq != nullptr, "ibv_create_srq");
  for (int i = 0; i < 4; ++i) {
    ibv_qp_init_attr with_srq = attributes(IBV_QPT_UD, send, receive, srq);
    check(ibv_create_qp(other, &with_srq) != nullptr, "ibv_create_qp");
  }
  make_xrc_srq(context, pd);

  const int cqs = argc > 2 ? std::atoi(argv[2]) : 0;
  const int more = argc > 3 ? std::atoi(argv[3]) : 0;
  for (int i = 0; i < cqs; ++i) make_cq(context, 64);
  for (int i = 0; i < more; ++i) ids.bind(argv[1], 0);
  std::puts("ready");
  (void)std::getchar();
  std::puts("done");
  std::exit(0);  // does not destroy the objects
}
