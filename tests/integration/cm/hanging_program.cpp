// SPDX-License-Identifier: BSD-2-Clause
// A program of librdmacm that destroys an ID before it has acknowledged the ID's event, and so
// waits: until a line comes, when another thread acknowledges it. Then it waits for something of
// its own, in memory where the ID may have been, until a second line comes.
//
//   hanging_program ADDRESS
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace {

void check(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(1);
}

struct Flag {
  void set() {
    const std::lock_guard guard(lock);
    is_set = true;
    changed.notify_all();
  }
  void await() {
    std::unique_lock guard(lock);
    changed.wait(guard, [this] { return is_set; });
  }
  std::mutex lock;
  std::condition_variable changed;
  bool is_set = false;
};

}  // namespace

int main(int argc, char** argv) {
  check(argc == 2, "usage: hanging_program ADDRESS");
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  rdma_event_channel* const channel = rdma_create_event_channel();
  check(channel != nullptr, "rdma_create_event_channel");
  rdma_cm_id* id = nullptr;
  check(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  addrinfo* to = nullptr;
  check(getaddrinfo(argv[1], "7174", nullptr, &to) == 0, "getaddrinfo");
  check(rdma_resolve_addr(id, nullptr, to->ai_addr, 2000) == 0, "rdma_resolve_addr");
  rdma_cm_event* event = nullptr;
  check(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
  check(event->event == RDMA_CM_EVENT_ADDR_RESOLVED, "RDMA_CM_EVENT_ADDR_RESOLVED");

  auto own = std::make_unique<Flag>();
  std::thread other([&] {
    std::string line;
    std::getline(std::cin, line);
    check(rdma_ack_cm_event(event) == 0, "rdma_ack_cm_event");
    std::getline(std::cin, line);
    own->set();
  });
  std::puts("destroys");
  check(rdma_destroy_id(id) == 0, "rdma_destroy_id");
  std::puts("destroyed");
  own->await();
  other.join();
  rdma_destroy_event_channel(channel);
  freeaddrinfo(to);
  std::puts("done");
  return 0;
}
