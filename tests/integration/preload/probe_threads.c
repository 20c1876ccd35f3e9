// SPDX-License-Identifier: BSD-2-Clause
/* Runs several threads at once. Each has its own nodes, files and netlink sockets. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "probe.h"

enum { kThreads = 4, kRounds = 30 };

/* Lists the devices over netlink. Returns the number of messages before the end, or -1. */
static int count_devices(void) {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
  if (fd < 0) return -1;
  struct nlmsghdr request = {.nlmsg_len = sizeof request,
                             .nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET),
                             .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                             .nlmsg_seq = 1};
  int count = -1;
  if (send(fd, &request, sizeof request, 0) == sizeof request) count = 0;
  for (bool more = count == 0; more;) {
    union {
      struct nlmsghdr header;
      char bytes[4096];
    } reply;
    struct pollfd p = {fd, POLLIN, 0};
    struct sockaddr_nl from;
    socklen_t from_size = sizeof from;
    if (poll(&p, 1, 5000) != 1) return -1;
    ssize_t n = recvfrom(fd, &reply, sizeof reply, 0, (struct sockaddr*)&from, &from_size);
    if (n <= 0 || from.nl_pid != 0 || from_size != sizeof from) return -1;
    for (struct nlmsghdr* m = &reply.header; NLMSG_OK(m, n); m = NLMSG_NEXT(m, n)) {
      if (m->nlmsg_type == NLMSG_DONE) more = false;
      if (more) ++count;
    }
  }
  close(fd);
  return count;
}

static void* run(void* failed) {
  for (int i = 0; i < kRounds; ++i) {
    const int fd = open(NODE, O_RDWR | O_CLOEXEC);
    if (fd < 0 || !looks_like_node(fd)) *(bool*)failed = true;
    if (!reads_node_type(open(NODE_TYPE, O_RDONLY))) *(bool*)failed = true;
    if (count_devices() != 2) *(bool*)failed = true;
    close(fd);
  }
  return NULL;
}

void probe_threads(void) {
  CHECK(count_devices() == 2);
  pthread_t threads[kThreads];
  bool failed[kThreads] = {false};
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, run, &failed[i]);
  for (int i = 0; i < kThreads; ++i) {
    pthread_join(threads[i], NULL);
    CHECK(!failed[i]);
  }
}
