// SPDX-License-Identifier: BSD-2-Clause
// Makes connections one after the other, with the synchronous calls of librdmacm: each ID has an
// event channel of its own, gets a queue pair, sends or receives a message and is destroyed.
//
//   cycles_program serve PORT
//   cycles_program connect PORT COUNT     COUNT connections, and as many for each line of input
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

namespace {

constexpr std::size_t kSize = 64;

void check(bool good, const char* what) {
  if (good) return;
  std::printf("failed: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

ibv_qp_init_attr attributes() {
  ibv_qp_init_attr a{};
  a.qp_type = IBV_QPT_RC;
  a.cap = {4, 4, 1, 1, 0};
  a.sq_sig_all = 1;
  return a;
}

rdma_cm_id* endpoint(const char* address, const char* port) {
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  if (address == nullptr) hints.ai_flags = RAI_PASSIVE;
  rdma_addrinfo* found = nullptr;
  check(rdma_getaddrinfo(address, port, &hints, &found) == 0, "rdma_getaddrinfo");
  ibv_qp_init_attr a = attributes();
  rdma_cm_id* id = nullptr;
  check(rdma_create_ep(&id, found, nullptr, &a) == 0, "rdma_create_ep");
  rdma_freeaddrinfo(found);
  return id;
}

void end(rdma_cm_id* id, ibv_mr* memory) {
  rdma_disconnect(id);
  check(rdma_dereg_mr(memory) == 0, "rdma_dereg_mr");
  rdma_destroy_ep(id);
}

[[noreturn]] void serve(const char* port) {
  rdma_cm_id* listener = endpoint(nullptr, port);
  check(rdma_listen(listener, 16) == 0, "rdma_listen");
  std::puts("listening");
  for (;;) {
    rdma_cm_id* id = nullptr;
    check(rdma_get_request(listener, &id) == 0, "rdma_get_request");
    char message[kSize];
    ibv_mr* memory = rdma_reg_msgs(id, message, kSize);
    check(memory != nullptr, "rdma_reg_msgs");
    check(rdma_post_recv(id, nullptr, message, kSize, memory) == 0, "rdma_post_recv");
    check(rdma_accept(id, nullptr) == 0, "rdma_accept");
    ibv_wc done{};
    check(rdma_get_recv_comp(id, &done) == 1 && done.status == IBV_WC_SUCCESS, "receive");
    end(id, memory);
  }
}

void connect_once(const char* port) {
  rdma_cm_id* id = endpoint("127.0.0.1", port);
  char message[kSize] = {};
  ibv_mr* memory = rdma_reg_msgs(id, message, kSize);
  check(memory != nullptr, "rdma_reg_msgs");
  check(rdma_connect(id, nullptr) == 0, "rdma_connect");
  check(rdma_post_send(id, nullptr, message, kSize, memory, 0) == 0, "rdma_post_send");
  ibv_wc done{};
  check(rdma_get_send_comp(id, &done) == 1 && done.status == IBV_WC_SUCCESS, "send");
  end(id, memory);
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string what = argc > 2 ? argv[1] : "";
  if (what == "serve") serve(argv[2]);
  check(what == "connect" && argc == 4, "usage: serve PORT | connect PORT COUNT");
  std::string line;
  do {
    for (int i = std::atoi(argv[3]); i > 0; --i) connect_once(argv[2]);
    std::puts("done");
  } while (std::getline(std::cin, line));
}
